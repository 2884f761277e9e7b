#!/usr/bin/env python3
"""Writes what recurrent layers of PyTorch and Keras compute, for tests/model/recurrent.cpp.

  bench/golden_recurrent.py > tests/model/golden/recurrent.json

Needs torch, keras and numpy; neither the build nor the tests do. Weights are written under the names and in the layout of
Plimsoll's layers.
"""
import json
import os
import sys

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy
import torch

BATCH, STEPS, WIDTH, UNITS = 3, 5, 4, 3
LENGTHS = [5, 2, 3]
MASK = [[0, 0, 1, 1, 1], [1, 0, 1, 1, 0], [1, 1, 1, 1, 1]]  # also at the front
draw = numpy.random.default_rng(20)


def numbers(array):
    if isinstance(array, torch.Tensor):
        array = array.detach().numpy()
    return {"shape": list(array.shape), "numbers": [float(f"{v:.7g}") for v in numpy.asarray(array, numpy.float64).ravel()]}


def sample():
    return numpy.asarray(draw.uniform(-1, 1, (BATCH, STEPS, WIDTH)))


def slopes(y, wrt):
    seed = torch.tensor(draw.uniform(-1, 1, tuple(y.shape)), dtype=y.dtype)
    grads = torch.autograd.grad((y * seed).sum(), [tensor for tensor, _ in wrt.values()])
    return numbers(seed), {name: numbers(change(g)) for (name, (_, change)), g in zip(wrt.items(), grads)}


def of_torch(kind, layers=1, both_ways=False, lengths=False, first=False):
    torch.manual_seed(1)
    module = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "simple_rnn": torch.nn.RNN}[kind]
    module = module(WIDTH, UNITS, num_layers=layers, bidirectional=both_ways, batch_first=True).double()
    x = torch.tensor(sample(), requires_grad=True)
    count = layers * (2 if both_ways else 1)
    states = [torch.tensor(draw.uniform(-1, 1, (count, BATCH, UNITS))) for _ in range(2 if kind == "lstm" else 1)]
    given = (states[0], states[1]) if kind == "lstm" else states[0]
    inputs = torch.nn.utils.rnn.pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False) if lengths else x
    y, last = module(inputs, given) if first else module(inputs)
    if lengths:
        y, _ = torch.nn.utils.rnn.pad_packed_sequence(y, batch_first=True)
    last = last if isinstance(last, tuple) else (last,)
    weights, wrt = {}, {"x": (x, lambda g: g)}
    for layer in range(layers):
        for way in (["forward", "backward"] if both_ways else [""]):
            scope = "/".join(s for s in (f"layer_{layer}" if layers > 1 else "", way) if s)
            suffix = f"l{layer}" + ("_reverse" if way == "backward" else "")
            ih, hh, b, bh = (getattr(module, f"{n}_{suffix}") for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            own = {"kernel": ih.T, "recurrent_kernel": hh.T, "bias": b if kind == "gru" else b + bh}
            wrt[f"{scope}/kernel".strip("/")] = (ih, lambda g: g.T)
            wrt[f"{scope}/recurrent_kernel".strip("/")] = (hh, lambda g: g.T)
            wrt[f"{scope}/bias".strip("/")] = (b, lambda g: g)
            if kind == "gru":
                own["recurrent_bias"] = bh
                wrt[f"{scope}/recurrent_bias".strip("/")] = (bh, lambda g: g)
            weights |= {f"{scope}/{name}".strip("/"): numbers(value) for name, value in own.items()}
    seed, gradients = slopes(y, wrt)
    return {"layer": kind, "x": numbers(x), "weights": weights, "output": numbers(y), "seed": seed, "gradients": gradients,
            "last": [numbers(state[i]) for i in range(count) for state in last],
            "first": [numbers(state[i]) for i in range(count) for state in states] if first else [],
            "lengths": LENGTHS if lengths else [], "mask": [],
            "options": {"return_sequences": True, "bidirectional": both_ways, "layers": layers, "zero_masked": lengths,
                        "order": "rzn" if kind == "gru" else ""}}


def of_keras(kind, mask=False, both_ways=False, **settings):
    keras.utils.set_random_seed(2)
    keras.config.set_floatx("float64")
    layer = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU, "simple_rnn": keras.layers.SimpleRNN}[kind](
        UNITS, bias_initializer="glorot_uniform" if kind == "gru" else keras.initializers.RandomUniform(-1, 1), **settings)
    called = keras.layers.Bidirectional(layer) if both_ways else layer
    x = torch.tensor(sample(), requires_grad=True)
    given = torch.tensor(MASK, dtype=torch.bool) if mask else None
    y = called(x, mask=given)
    weights, wrt = {}, {"x": (x, lambda g: g)}
    for scope, own in ([("forward/", called.forward_layer), ("backward/", called.backward_layer)] if both_ways else [("", layer)]):
        cell = own.cell
        parts = {"kernel": cell.kernel.value, "recurrent_kernel": cell.recurrent_kernel.value}
        for name, value in parts.items():
            weights[scope + name] = numbers(value)
            wrt[scope + name] = (value, lambda g: g)
        bias = cell.bias.value
        if kind == "gru":  # the biases of the inputs, then those of the state
            weights[scope + "bias"], weights[scope + "recurrent_bias"] = numbers(bias[0]), numbers(bias[1])
        else:
            weights[scope + "bias"] = numbers(bias)
            wrt[scope + "bias"] = (bias, lambda g: g)
    seed, gradients = slopes(y, wrt)
    return {"layer": kind, "x": numbers(x), "weights": weights, "output": numbers(y), "seed": seed, "gradients": gradients,
            "last": [], "first": [], "lengths": [], "mask": MASK if mask else [],
            "options": {"return_sequences": settings.get("return_sequences", False), "bidirectional": both_ways, "layers": 1,
                        "zero_masked": False, "order": "", "reverse": settings.get("go_backwards", False),
                        "activation": settings.get("activation", "tanh")}}


json.dump({
    "torch lstm": of_torch("lstm"),
    "torch lstm, two layers both ways, with states": of_torch("lstm", 2, True, first=True),
    "torch lstm, both ways, lengths": of_torch("lstm", 1, True, True),
    "torch gru, two layers, with states, lengths": of_torch("gru", 2, False, True, True),
    "torch gru, both ways": of_torch("gru", 1, True),
    "torch simple_rnn, both ways, lengths": of_torch("simple_rnn", 1, True, True),
    "keras lstm": of_keras("lstm"),
    "keras lstm, sequences, mask": of_keras("lstm", True, return_sequences=True),
    "keras lstm, both ways, mask": of_keras("lstm", True, True),
    "keras gru, sequences": of_keras("gru", return_sequences=True),
    "keras gru, backwards, mask": of_keras("gru", True, go_backwards=True),
    "keras simple_rnn, relu, mask": of_keras("simple_rnn", True, activation="relu"),
    "keras simple_rnn, both ways, sequences": of_keras("simple_rnn", False, True, return_sequences=True),
}, sys.stdout, separators=(",", ":"))
print()
