# Run in the environment of peft: losses of adapted models here and there. See bench/peft.
import json
import subprocess
import sys
from pathlib import Path

import numpy
import torch
import torch.nn.functional
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.numpy import save_file
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

LAYERS, WIDTH, WORDS, POSITIONS, SAMPLES = 2, 64, 100, 16, 12
PROGRAM, FOLDER = sys.argv[1], Path(sys.argv[2])
FLAGS = ['--layers', str(LAYERS), '--width', str(WIDTH), '--classes', str(WORDS), '--sequence', str(POSITIONS)]


def plimsoll(*words):
    run = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f'plimsoll {" ".join(map(str, words))}\n{run.stderr}')
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith('{')]


def loss_here(model, weights, *more):
    events = plimsoll('eval', model, *FLAGS, '--data', FOLDER / 'data', '--weights', weights, '--json', *more)
    return events[-1]['loss']


def loss_there(model, x, y):
    model.eval()
    with torch.no_grad():
        logits = model(input_ids=torch.from_numpy(x).long()).logits
    return torch.nn.functional.cross_entropy(logits.reshape(-1, WORDS), torch.from_numpy(y).long().reshape(-1)).item()


def norm(tensors, name, layer):
    tensors[f'{name}/gamma'], tensors[f'{name}/beta'] = layer.weight, layer.bias


def linear(tensors, name, weight, bias):
    tensors[f'{name}/kernel'], tensors[f'{name}/bias'] = weight, bias


def gpt2():
    config = GPT2Config(n_layer=LAYERS, n_embd=WIDTH, n_head=1, vocab_size=WORDS, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config)
    tensors = {'words/table': model.transformer.wte.weight, 'positions/table': model.transformer.wpe.weight}
    for i, block in enumerate(model.transformer.h, 1):
        name = f'block{i}'
        norm(tensors, f'{name}/norm1', block.ln_1)
        norm(tensors, f'{name}/norm2', block.ln_2)
        for part, kernel, bias in zip(['query', 'key', 'value'], block.attn.c_attn.weight.chunk(3, 1),
                                      block.attn.c_attn.bias.chunk(3)):
            linear(tensors, f'{name}/attention/{part}', kernel, bias)
        for layer, there in [('attention/output', block.attn.c_proj), ('fc1', block.mlp.c_fc),
                             ('fc2', block.mlp.c_proj)]:
            linear(tensors, f'{name}/{layer}', there.weight, there.bias)
    norm(tensors, 'norm', model.transformer.ln_f)
    return 'gpt2-small', model, tensors, ['c_attn', 'c_proj']


def bert():
    config = BertConfig(num_hidden_layers=LAYERS, hidden_size=WIDTH, num_attention_heads=1, vocab_size=WORDS,
                        intermediate_size=4 * WIDTH)
    model = BertForMaskedLM(config)
    embeddings = model.bert.embeddings
    tensors = {'words/table': embeddings.word_embeddings.weight,
               'positions/table': embeddings.position_embeddings.weight,
               'segments/table': embeddings.token_type_embeddings.weight}
    norm(tensors, 'norm', embeddings.LayerNorm)
    for i, block in enumerate(model.bert.encoder.layer, 1):
        name = f'block{i}'
        attention = block.attention
        for part in ['query', 'key', 'value']:
            there = getattr(attention.self, part)
            linear(tensors, f'{name}/attention/{part}', there.weight.T, there.bias)
        for layer, there in [('attention/output', attention.output.dense), ('fc1', block.intermediate.dense),
                             ('fc2', block.output.dense)]:
            linear(tensors, f'{name}/{layer}', there.weight.T, there.bias)
        norm(tensors, f'{name}/norm1', attention.output.LayerNorm)
        norm(tensors, f'{name}/norm2', block.output.LayerNorm)
    head = model.cls.predictions.transform
    linear(tensors, 'head', head.dense.weight.T, head.dense.bias)
    norm(tensors, 'head_norm', head.LayerNorm)
    return 'bert-base', model, tensors, ['query', 'value', 'intermediate.dense']


failures = 0


def compare(what, here, there):
    global failures
    is_same = abs(here - there) <= 1e-4 * abs(there)
    failures += not is_same
    print(f'{"same " if is_same else "OTHER"}  {what:52} here {here:.7f}  there {there:.7f}', flush=True)


def main():
    random = numpy.random.default_rng(1)
    x, y = (random.integers(0, WORDS, (SAMPLES, POSITIONS), dtype=numpy.int32) for _ in range(2))
    (FOLDER / 'data').mkdir()
    for half in ['train', 'test']:
        numpy.save(FOLDER / 'data' / f'x_{half}.npy', x)
        numpy.save(FOLDER / 'data' / f'y_{half}.npy', y)
    for make in [gpt2, bert]:
        torch.manual_seed(3)
        name, model, tensors, targets = make()
        base = FOLDER / f'{name}.safetensors'
        save_file({f'{name}/{key}': value.detach().numpy().copy() for key, value in tensors.items()}, base)
        plain = loss_there(model, x, y)
        compare(f'{name}: the model itself', loss_here(name, base), plain)

        # Theirs, read here. B is no longer zero after a training.
        config = LoraConfig(r=4, lora_alpha=16, target_modules=targets, fan_in_fan_out=make is gpt2)
        peft = get_peft_model(model, config)
        with torch.no_grad():
            for key, weight in peft.named_parameters():
                if 'lora_B' in key:
                    weight.normal_(0, 0.2)
        theirs = FOLDER / f'{name}-theirs'
        peft.save_pretrained(theirs)
        adapted = loss_there(peft, x, y)
        if abs(adapted - plain) < 1e-3:
            sys.exit('these adapters change nothing: the comparison would prove nothing')
        compare(f'{name}: adapters of peft, read here', loss_here(name, base, '--adapter', theirs), adapted)
        merged = FOLDER / f'{name}-merged'
        plimsoll('merge', name, *FLAGS, '--weights', base, '--adapter', theirs, '--output', merged)
        compare(f'{name}: adapters of peft, merged here', loss_here(name, merged / 'weights.safetensors'), adapted)
        model = peft.unload()

        # Ours, read there.
        ours = FOLDER / f'{name}-ours'
        plimsoll('adapt', name, *FLAGS, '--rank', 4, '--alpha', 8, '--targets', ','.join(targets), '--weights', base,
                 '--data', FOLDER / 'data', '--batch', 4, '--epochs', 8, '--lr', 0.01, '--progress', 'none', '--output',
                 ours)
        here = loss_here(name, base, '--adapter', ours)
        if abs(here - plain) < 1e-3:
            sys.exit('the training changed nothing: the comparison would prove nothing')
        back = PeftModel.from_pretrained(model, ours)
        compare(f'{name}: adapters of plimsoll, read by peft', here, loss_there(back, x, y))
        compare(f'{name}: adapters of plimsoll, merged by peft', here, loss_there(back.merge_and_unload(), x, y))
    return 1 if failures else 0


sys.exit(main())
