#!/usr/bin/env python3
"""Compares ids and speed with Hugging Face's tokenizers (and with sentencepiece for its own models).

    pip install tokenizers sentencepiece gguf
    bench/tokenizer/compare.py ENCODE TEXT TOKENIZER...

ENCODE is the program of encode.cpp, which `bench/build bench_tokenizer` builds. The reference of a file that `tokenizers` does not read itself is made of its parts:
pieces, merges and patterns. The text is read as decode(errors="replace") reads it. Prints one row for each tokenizer; seconds are those of the processor.
"""
import base64
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

os.environ["TOKENIZERS_PARALLELISM"] = "false"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
LETTERS = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s"
           r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s"
           r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"


def byte_alphabet():
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in seen]
    return {**{b: chr(b) for b in seen}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


ALPHABET = byte_alphabet()


def byte_level(vocabulary, merges, steps, ignore_merges=False):
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def ranked(pieces, pattern, first_id=0):
    """tiktoken's ranks as merges: every cut of a piece into two is one, in the order of the pieces that they make."""
    text = {piece: "".join(ALPHABET[b] for b in piece) for piece in pieces}
    vocabulary = {text[piece]: first_id + rank for piece, rank in pieces.items()}
    merges = []
    for piece, rank in sorted(pieces.items(), key=lambda item: item[1]):
        cuts = [(piece[:i], piece[i:]) for i in range(1, len(piece)) if piece[:i] in pieces and piece[i:] in pieces]
        merges += [(text[a], text[b]) for a, b in sorted(cuts, key=lambda cut: (pieces[cut[0]], pieces[cut[1]]))]
    return byte_level(vocabulary, merges, [pre_tokenizers.Split(Regex(pattern), "isolated")], True)


class SentencePiece:
    def __init__(self, path):
        import sentencepiece

        self.model = sentencepiece.SentencePieceProcessor(model_file=path)
        ids = range(self.model.get_piece_size())
        self.control = [self.model.id_to_piece(i) for i in ids if self.model.is_control(i) or self.model.is_unknown(i)]

    def ids(self, text):
        return self.model.encode(text)


class HuggingFace:
    def __init__(self, tokenizer):
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.tokenizer = tokenizer

    def ids(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids


def gguf_reference(path):
    import gguf

    fields = gguf.GGUFReader(path).fields
    texts = lambda name: [bytes(fields[name].parts[i]).decode() for i in fields[name].data]
    tokens, merges = texts("tokenizer.ggml.tokens"), texts("tokenizer.ggml.merges")
    assert texts("tokenizer.ggml.pre") == ["smollm"]
    kinds = [int(fields["tokenizer.ggml.token_type"].parts[i][0]) for i in fields["tokenizer.ggml.token_type"].data]
    tokenizer = byte_level({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges], [
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t, k in zip(tokens, kinds) if k == 3])
    return HuggingFace(tokenizer)


def reference(path):
    if path.endswith(".gguf"):
        return gguf_reference(path)
    if os.path.isdir(path):
        encoder = json.load(open(os.path.join(path, "encoder.json")))
        lines = open(os.path.join(path, "vocab.bpe"), encoding="utf-8").read().split("\n")[1:]
        tokenizer = Tokenizer(models.BPE(encoder, [tuple(line.split(" ")) for line in lines if line]))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        return HuggingFace(tokenizer)
    with open(path, "rb") as file:
        begin = file.read(1)
    if begin == b"\n":
        return SentencePiece(path)
    if "tekken" in path:
        tekken = json.load(open(path))
        size = tekken["config"]["default_vocab_size"] - tekken["config"]["default_num_special_tokens"]
        pieces = {base64.b64decode(piece["token_bytes"]): piece["rank"] for piece in tekken["vocab"][:size]}
        tokenizer = ranked(pieces, tekken["config"]["pattern"], tekken["config"]["default_num_special_tokens"])
        for content, rank in [("<unk>", 0), ("<s>", 1), ("</s>", 2)]:
            added = {"id": rank, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
                     "normalized": False, "special": True}
            facts = json.loads(tokenizer.to_str())
            facts["model"]["vocab"][content] = rank
            facts["added_tokens"].append(added)
            tokenizer = Tokenizer.from_str(json.dumps(facts))
        return HuggingFace(tokenizer)
    if begin == b"{":
        return HuggingFace(Tokenizer.from_file(path))
    pieces = {base64.b64decode(line.split()[0]): int(line.split()[1]) for line in open(path, "rb") if line.strip()}
    patterns = {128_000: LLAMA3 % "{1,3}", 151_643: LLAMA3 % "", 200_000: LETTERS % (SHORT, SHORT)}
    return HuggingFace(ranked(pieces, patterns[len(pieces)]))


def compare(program, text_path, path):
    text = open(text_path, "rb").read().decode("utf-8", errors="replace")
    theirs = reference(path)
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(theirs, SentencePiece):
            # sentencepiece never sees its control tokens in a text; ours are those of `tokenizers`, which does.
            for token in theirs.control:
                text = text.replace(token, "")
            text_path = os.path.join(folder, "text")
            with open(text_path, "w", encoding="utf-8", newline="") as file:
                file.write(text)
        out = os.path.join(folder, "ids")
        ours = json.loads(subprocess.run([program, path, text_path, out, "3"], check=True, capture_output=True).stdout)
        ids = numpy.fromfile(out, dtype=numpy.int32)
    begin = time.process_time()
    expected = numpy.array(theirs.ids(text), dtype=numpy.int32)
    seconds = time.process_time() - begin
    same = len(ids) == len(expected) and bool((ids == expected).all())
    where = ""
    if not same:
        length = min(len(ids), len(expected))
        different = numpy.nonzero(ids[:length] != expected[:length])[0]
        at = int(different[0]) if len(different) else length
        where = f" first at {at}: ours {ids[at:at + 6].tolist()} theirs {expected[at:at + 6].tolist()}"
    megabytes = len(text.encode()) / 1e6
    print(f"{'same' if same else 'DIFFERENT'} {len(expected)} ids, ours {megabytes / ours['encode_seconds']:.1f} MB/s, "
          f"theirs {megabytes / seconds:.1f} MB/s ({seconds / ours['encode_seconds']:.1f} times), "
          f"holds {ours['bytes'] / 1e6:.1f} MB, {path}{where}", flush=True)
    return same


if __name__ == "__main__":
    results = [compare(sys.argv[1], sys.argv[2], path) for path in sys.argv[3:]]
    sys.exit(0 if all(results) else 1)
