#!/usr/bin/env python3
"""Writes tests/autodiff/optimisers.json: weights after 1, 5 and 20 steps of the optimisers of PyTorch and Keras.

    python3 -m venv venv && venv/bin/pip install torch==2.13.0 keras==3.15.1 numpy
    venv/bin/python bench/golden_optimisers.py tests/autodiff/optimisers.json

Both weights, a matrix and a vector, get the gradients that are in the file. Each case names our optimiser and its settings.
"""
import json
import os
import sys

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
import torch

STEPS = 20
KEPT = (1, 5, 20)
SHAPES = {"w": (4, 3), "b": (5,)}


def draw(seed):
    numbers = np.random.default_rng(seed)
    start = {name: numbers.uniform(-1, 1, shape).astype(np.float32) for name, shape in SHAPES.items()}
    gradients = [
        {name: numbers.normal(0, 0.5, shape).astype(np.float32) for name, shape in SHAPES.items()} for _ in range(STEPS)
    ]
    return start, gradients


START, GRADIENTS = draw(7)


def flat(array):
    return [float(x) for x in np.asarray(array, dtype=np.float32).ravel()]


def run_torch(make):
    weights = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in START.items()}
    optimiser = make(list(weights.values()))
    kept = {}
    for step in range(1, STEPS + 1):
        for name, weight in weights.items():
            weight.grad = torch.tensor(GRADIENTS[step - 1][name])
        optimiser.step()
        if step in KEPT:
            kept[step] = {name: flat(weight.detach().numpy()) for name, weight in weights.items()}
    return kept


def run_keras(make, average=False):
    weights = {name: keras.Variable(value, name=name) for name, value in START.items()}
    optimiser = make()
    optimiser.build(list(weights.values()))
    kept = {}
    for step in range(1, STEPS + 1):
        optimiser.apply([torch.tensor(GRADIENTS[step - 1][name]) for name in weights])
        if step in KEPT:
            of = dict(zip(weights, optimiser._model_variables_moving_average)) if average else weights
            kept[step] = {name: flat(keras.ops.convert_to_numpy(of[name])) for name in weights}
    return kept


def cases():
    t, k = torch.optim, keras.optimizers
    ours = lambda optimiser, **settings: {"optimiser": optimiser, "settings": settings}
    yield "torch_sgd", ours("sgd", learning_rate=0.1), run_torch(lambda p: t.SGD(p, 0.1))
    yield "torch_sgd_momentum_coupled_decay", ours(
        "sgd", learning_rate=0.05, momentum=0.9, weight_decay=0.1, couples_decay=1
    ), run_torch(lambda p: t.SGD(p, 0.05, momentum=0.9, weight_decay=0.1))
    yield "torch_sgd_nesterov", ours("sgd", learning_rate=0.05, momentum=0.9, nesterov=1), run_torch(
        lambda p: t.SGD(p, 0.05, momentum=0.9, nesterov=True)
    )
    yield "keras_sgd_nesterov_decay", ours(
        "sgd", learning_rate=0.05, momentum=0.9, nesterov=1, weight_decay=0.1
    ), run_keras(lambda: k.SGD(0.05, momentum=0.9, nesterov=True, weight_decay=0.1))
    yield "torch_adam", ours("adam", learning_rate=0.05, epsilon=1e-3, epsilon_after_correction=1), run_torch(
        lambda p: t.Adam(p, 0.05, eps=1e-3)
    )
    yield "keras_adam", ours("adam", learning_rate=0.05, epsilon=1e-3), run_keras(lambda: k.Adam(0.05, epsilon=1e-3))
    yield "torch_adam_coupled_decay", ours(
        "adam", learning_rate=0.05, epsilon=1e-8, epsilon_after_correction=1, weight_decay=0.1, couples_decay=1
    ), run_torch(lambda p: t.Adam(p, 0.05, weight_decay=0.1))
    yield "torch_adamw", ours(
        "adamw", learning_rate=0.05, epsilon=1e-8, epsilon_after_correction=1, weight_decay=0.1
    ), run_torch(lambda p: t.AdamW(p, 0.05, weight_decay=0.1))
    yield "keras_adamw", ours("adamw", learning_rate=0.05), run_keras(lambda: k.AdamW(0.05))
    yield "torch_amsgrad", ours(
        "amsgrad", learning_rate=0.05, beta2=0.9, epsilon=1e-8, epsilon_after_correction=1
    ), run_torch(lambda p: t.Adam(p, 0.05, betas=(0.9, 0.9), amsgrad=True))
    yield "keras_amsgrad", ours("adam", learning_rate=0.05, beta2=0.9, amsgrad=1), run_keras(
        lambda: k.Adam(0.05, beta_2=0.9, amsgrad=True)
    )
    yield "torch_rmsprop", ours("rmsprop", learning_rate=0.02, rho=0.99, epsilon=1e-2, epsilon_after_root=1), run_torch(
        lambda p: t.RMSprop(p, 0.02, eps=1e-2)
    )
    yield "keras_rmsprop", ours("rmsprop", learning_rate=0.02, momentum=0.5, centered=1), run_keras(
        lambda: k.RMSprop(0.02, momentum=0.5, centered=True)
    )
    yield "keras_lion", ours("lion", learning_rate=0.02), run_keras(lambda: k.Lion(0.02))
    yield "keras_adafactor", ours("adafactor", learning_rate=0.05), run_keras(lambda: k.Adafactor(0.05))
    yield "torch_adagrad", ours(
        "adagrad", learning_rate=0.1, initial_accumulator=0, epsilon=1e-2, epsilon_after_root=1
    ), run_torch(lambda p: t.Adagrad(p, 0.1, eps=1e-2))
    yield "keras_adagrad", ours("adagrad", learning_rate=0.1), run_keras(lambda: k.Adagrad(0.1))
    yield "torch_adadelta", ours("adadelta", learning_rate=1.0, rho=0.9, epsilon=1e-6), run_torch(
        lambda p: t.Adadelta(p, 1.0)
    )
    yield "keras_adadelta", ours("adadelta", learning_rate=1.0), run_keras(lambda: k.Adadelta(1.0))
    yield "torch_adamax", ours("adamax", learning_rate=0.05, epsilon=1e-8), run_torch(lambda p: t.Adamax(p, 0.05))
    yield "keras_adamax", ours("adamax", learning_rate=0.05), run_keras(lambda: k.Adamax(0.05))
    yield "torch_nadam", ours("nadam", learning_rate=0.05, epsilon=1e-8, momentum_decay=0.004), run_torch(
        lambda p: t.NAdam(p, 0.05)
    )
    yield "keras_nadam", ours("nadam", learning_rate=0.05), run_keras(lambda: k.Nadam(0.05))
    yield "torch_radam", ours("radam", learning_rate=0.05), run_torch(lambda p: t.RAdam(p, 0.05))
    yield "keras_ftrl", ours(
        "ftrl", learning_rate=0.1, l1=0.01, l2=0.05, l2_shrinkage=0.02, beta=0.1
    ), run_keras(
        lambda: k.Ftrl(
            0.1,
            l1_regularization_strength=0.01,
            l2_regularization_strength=0.05,
            l2_shrinkage_regularization_strength=0.02,
            beta=0.1,
        )
    )
    yield "keras_ftrl_power", ours("ftrl", learning_rate=0.1, rate_power=-0.7), run_keras(
        lambda: k.Ftrl(0.1, learning_rate_power=-0.7)
    )
    yield "keras_lamb", ours("lamb", learning_rate=0.05, weight_decay=0.1), run_keras(
        lambda: k.Lamb(0.05, weight_decay=0.1)
    )
    yield "keras_muon", ours("muon", learning_rate=0.05), run_keras(
        lambda: k.Muon(0.05, weight_decay=None, adam_weight_decay=None)
    )
    yield "torch_rprop", ours("rprop", learning_rate=0.01), run_torch(lambda p: t.Rprop(p, 0.01))
    yield "keras_average", ours("adam", learning_rate=0.05, average=0.9), run_keras(
        lambda: k.Adam(0.05, use_ema=True, ema_momentum=0.9), average=True
    )


def main():
    made = {
        "start": {name: flat(value) for name, value in START.items()},
        "shapes": {name: list(shape) for name, shape in SHAPES.items()},
        "gradients": [{name: flat(value) for name, value in each.items()} for each in GRADIENTS],
        "cases": {},
    }
    for name, ours, kept in cases():
        made["cases"][name] = {**ours, "weights": {str(step): weights for step, weights in kept.items()}}
    with open(sys.argv[1], "w") as file:
        json.dump(made, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
