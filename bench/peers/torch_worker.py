# Steps of a model in PyTorch, timed. Words of the setting: channels_last, compile, jit (inference).
import inspect

import torch

import timing
import torch_models


def trainer(arguments, model, x, labels):
    try:
        optimiser = torch.optim.Adam(model.parameters(), eps=1e-7, fused=True)
    except (RuntimeError, TypeError):  # older builds fuse nothing on a CPU
        optimiser = torch.optim.Adam(model.parameters(), eps=1e-7)

    def losses():
        return torch_models.loss(arguments.model, model(x), labels)

    compute = torch.compile(losses) if 'compile' in arguments.words else losses

    def step():
        optimiser.zero_grad(set_to_none=True)
        loss = compute()
        loss.backward()
        optimiser.step()
        return loss.item()

    return step


def predictor(arguments, model, x):
    model.eval()
    if 'jit' in arguments.words:
        with torch.no_grad():
            model = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(model, x)))
    if 'compile' in arguments.words:
        from torch._inductor import config
        config.freezing = True
        model = torch.compile(model)

    def step():
        with torch.inference_mode() if 'jit' not in arguments.words else torch.no_grad():
            return model(x).flatten()[0].item()

    return step


def export(model, x, file):
    # The older exporter: it takes any batch and needs no further packages. Before 2.5 there was no other.
    older = {'dynamo': False} if 'dynamo' in inspect.signature(torch.onnx.export).parameters else {}
    torch.onnx.export(model, (x,), file, input_names=['x'], output_names=['y'],
                      dynamic_axes={'x': {0: 'batch'}, 'y': {0: 'batch'}}, **older)


def main():
    arguments = timing.parse_arguments()
    torch.set_num_threads(arguments.threads)
    torch.set_num_interop_threads(1)
    torch.manual_seed(1)
    model = torch_models.make(arguments.model)
    weights = sum(parameter.numel() for parameter in model.parameters())  # before any are frozen
    x, labels = torch_models.data(arguments.model, arguments.batch, arguments.sequence)
    if arguments.onnx:
        model.eval()
        return export(model, x, arguments.onnx)
    if 'channels_last' in arguments.words:
        model = model.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    if arguments.inference:
        step = predictor(arguments, model, x)
    else:
        step = trainer(arguments, model, x, labels)
    timing.measure(arguments, step, torch.__version__, lambda: weights)


if __name__ == '__main__':
    main()
