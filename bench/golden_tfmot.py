#!/usr/bin/env python3
"""Writes tests/ops/pruned/masks.txt: what tfmot 0.8.1 makes of weights under schedules.

    python3 -m venv VENV && VENV/bin/pip install tensorflow-cpu tf_keras tensorflow-model-optimization
    VENV/bin/python bench/golden_tfmot.py

One line for each step of each case: its name, the settings of the operator `prune`, the shape, the step, and the mask
as hexadecimal bytes, eight elements a byte, the first in the lowest bit. Weights are made of a formula, so that they
need not be kept: element i is ((i * 7919 + 104729 * step) % 2003 - 1001) / 1000, for filters counted in the order of
[outputs, inputs, height, width]. Masks of filters are turned into that order.
"""
import os
import pathlib

os.environ["TF_USE_LEGACY_KERAS"] = "1"
import numpy as np
import tensorflow as tf
from tensorflow_model_optimization.python.core.sparsity.keras import pruning_impl, pruning_schedule


def weights(shape, step):
    i = np.arange(np.prod(shape), dtype=np.int64)
    return (((i * 7919 + 104729 * step) % 2003 - 1001).astype(np.float32) / np.float32(1000)).reshape(shape)


def masks(schedule, shape, steps, block=(1, 1), pooling="AVG", m_by_n=None):
    """The mask after each of these steps."""
    found = []
    order = [2, 3, 1, 0] if len(shape) == 4 else [0, 1]
    start = weights(shape, 0).transpose(order) if len(shape) > 1 else weights(shape, 0)
    weight, mask = tf.Variable(start), tf.Variable(tf.ones_like(start))
    threshold, step = tf.Variable(0.0), tf.Variable(0, dtype=tf.int64)
    pruning = pruning_impl.Pruning(lambda: step, [(weight, mask, threshold)], schedule, block, pooling, m_by_n)
    for number in steps:
        new = weights(shape, number)
        weight.assign(new.transpose(order) if len(shape) > 1 else new)
        step.assign(number)
        pruning.conditional_mask_update()
        back = mask.numpy().transpose([3, 2, 0, 1]) if len(shape) == 4 else mask.numpy()
        found.append((number, np.packbits(back.astype(np.uint8).ravel(), bitorder="little").tobytes().hex()))
    return found


def polynomial(**settings):
    names = {"initial": "initial_sparsity", "final": "final_sparsity", "begin": "begin_step", "end": "end_step"}
    return pruning_schedule.PolynomialDecay(**{names.get(name, name): value for name, value in settings.items()})


RAMP = dict(initial=0.5, final=0.8, begin=100, end=1000)
QUICK = dict(initial=0.0, final=0.9, begin=3, end=40, frequency=7, power=2)
CASES = {
    "ramp": (RAMP, [37, 29], [1, 99, 100, 150, 200, 500, 900, 1000, 1100], {}),
    "quick": (QUICK, [500], [1, 3, 9, 10, 17, 24, 31, 38, 45], {}),
    "filter": (RAMP, [5, 3, 3, 2], [100, 300, 1000], {}),
    "means": (RAMP, [12, 18], [100, 600, 1000], dict(block=(3, 2))),
    "largest": (RAMP, [16, 15], [100, 600, 1000], dict(block=(4, 3), pooling="MAX")),
    "rest": (RAMP, [13, 19], [100, 600], dict(block=(2, 2))),
    "pairs": (RAMP, [10, 6], [1, 2, 100], dict(m_by_n=(2, 4))),
    "pairs_of_filter": (RAMP, [3, 7, 2, 2], [1, 2], dict(m_by_n=(2, 4))),
}


def settings_of(settings, options):
    numbers = dict(settings)
    if "block" in options:
        numbers["block_height"], numbers["block_width"] = options["block"]
    if options.get("pooling") == "MAX":
        numbers["largest"] = 1
    if "m_by_n" in options:
        numbers["two_of_four"] = 1
    return ",".join(f"{name}={value}" for name, value in numbers.items())


def main():
    lines = []
    for name, (settings, shape, steps, options) in CASES.items():
        for step, mask in masks(polynomial(**settings), shape, steps, **options):
            lines.append(f"{name} {settings_of(settings, options)} {'x'.join(map(str, shape))} {step} {mask}")
    constant = pruning_schedule.ConstantSparsity(0.5, 2, -1, 10)
    for step, mask in masks(constant, [101], [1, 2, 7, 12, 1002]):
        lines.append(f"constant initial=0.5,final=0.5,begin=2,end=-1,frequency=10 101 {step} {mask}")
    folder = pathlib.Path(__file__).parent.parent / "tests" / "ops" / "pruned"
    folder.mkdir(exist_ok=True)
    (folder / "masks.txt").write_text("\n".join(lines) + "\n")


main()
