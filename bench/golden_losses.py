#!/usr/bin/env python3
"""Writes tests/model/losses.json: losses and metrics of Keras and PyTorch on small outputs and targets.

    python3 -m venv venv && venv/bin/pip install torch==2.13.0 keras==3.15.1 numpy
    venv/bin/python bench/golden_losses.py tests/model/losses.json

Each entry names our loss or metric, its settings, and the value of the other side: a mean over all elements.
"""
import json
import os
import sys

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
import torch

numbers = np.random.default_rng(11)
ROWS, CLASSES = 6, 4


def f32(array):
    return np.asarray(array, dtype=np.float32)


logits = f32(numbers.normal(0, 1, (ROWS, CLASSES)))
probabilities = f32(np.exp(logits) / np.exp(logits).sum(1, keepdims=True))
labels = numbers.integers(0, CLASSES, ROWS)
some_ignored = labels.copy()
some_ignored[[1, 4]] = -100
one_hot = f32(np.eye(CLASSES)[labels])
shares = f32(numbers.uniform(0.05, 0.95, (ROWS, CLASSES)))  # probabilities of one thing each
binary = f32(numbers.integers(0, 2, (ROWS, CLASSES)))
reals = f32(numbers.normal(0, 1, (ROWS, CLASSES)))
others = f32(numbers.normal(0, 1, (ROWS, CLASSES)))
positive = f32(numbers.uniform(0.1, 3, (ROWS, CLASSES)))
distances = f32(numbers.uniform(0, 2, (ROWS, 1)))
alike = f32(numbers.integers(0, 2, (ROWS, 1)))

DATA = {name: value for name, value in globals().items() if isinstance(value, np.ndarray)}


def number(x):
    return float(np.asarray(keras.ops.convert_to_numpy(x)).mean())


def losses():
    k, t = keras.losses, torch.nn.functional
    of = torch.tensor
    yield "sparse_cross_entropy", {"from_logits": 0}, "probabilities", "labels", number(
        k.SparseCategoricalCrossentropy()(labels, probabilities)
    )
    yield "sparse_cross_entropy", {"ignore": -100}, "logits", "some_ignored", number(
        t.cross_entropy(of(logits), of(some_ignored), ignore_index=-100)
    )
    yield "sparse_cross_entropy", {"ignore": -100, "label_smoothing": 0.1}, "logits", "some_ignored", number(
        t.cross_entropy(of(logits), of(some_ignored), ignore_index=-100, label_smoothing=0.1)
    )
    yield "cross_entropy", {"from_logits": 0, "label_smoothing": 0.1}, "probabilities", "one_hot", number(
        k.CategoricalCrossentropy(label_smoothing=0.1)(one_hot, probabilities)
    )
    yield "binary_cross_entropy", {"from_logits": 0}, "shares", "binary", number(
        k.BinaryCrossentropy()(binary, shares)
    )
    yield "nll", {}, "logits", "labels", number(t.nll_loss(of(logits), of(labels)))
    yield "binary_focal", {"from_logits": 0}, "shares", "binary", number(k.BinaryFocalCrossentropy()(binary, shares))
    yield "binary_focal", {}, "logits", "binary", number(k.BinaryFocalCrossentropy(from_logits=True)(binary, logits))
    yield "focal", {"from_logits": 0}, "probabilities", "one_hot", number(
        k.CategoricalFocalCrossentropy()(one_hot, probabilities)
    )
    yield "dice", {}, "shares", "binary", number(k.Dice()(binary, shares))
    yield "tversky", {"alpha": 0.3, "beta": 0.7}, "shares", "binary", number(k.Tversky(0.3, 0.7)(binary, shares))
    yield "mape", {}, "reals", "positive", number(k.MeanAbsolutePercentageError()(positive, reals))
    yield "msle", {}, "positive", "shares", number(k.MeanSquaredLogarithmicError()(shares, positive))
    yield "smooth_l1", {}, "reals", "others", number(t.smooth_l1_loss(of(reals), of(others)))
    yield "categorical_hinge", {}, "reals", "one_hot", number(k.CategoricalHinge()(one_hot, reals))
    yield "soft_margin", {}, "reals", "binary", number(t.soft_margin_loss(of(reals), of(2 * binary - 1)))
    yield "poisson_nll", {}, "reals", "positive", number(t.poisson_nll_loss(of(reals), of(positive)))
    yield "generalized_cross_entropy", {}, "probabilities", "one_hot", number(
        k.CategoricalGeneralizedCrossEntropy()(labels, probabilities)
    )
    yield "mse", {}, "reals", "others", number(k.MeanSquaredError()(others, reals))
    yield "mae", {}, "reals", "others", number(k.MeanAbsoluteError()(others, reals))
    yield "huber", {}, "reals", "others", number(k.Huber()(others, reals))
    yield "log_cosh", {}, "reals", "others", number(k.LogCosh()(others, reals))
    yield "hinge", {}, "reals", "binary", number(k.Hinge()(binary, reals))
    yield "squared_hinge", {}, "reals", "binary", number(k.SquaredHinge()(binary, reals))
    yield "poisson", {}, "positive", "shares", number(k.Poisson()(shares, positive))
    yield "kl_divergence", {}, "probabilities", "shares", number(k.KLDivergence()(shares, probabilities))
    yield "cosine_similarity", {}, "reals", "others", number(k.CosineSimilarity()(others, reals))


def metrics():
    m = keras.metrics

    def value(metric, target, output):
        metric.update_state(target, output)
        return number(metric.result())

    row = lambda array: array.reshape(-1)
    yield "accuracy", {}, "logits", "labels", value(m.SparseCategoricalAccuracy(), labels, logits)
    yield "top_2", {}, "logits", "labels", value(m.SparseTopKCategoricalAccuracy(2), labels, logits)
    yield "precision", {}, "shares", "binary", value(m.Precision(), binary, shares)
    yield "recall", {}, "shares", "binary", value(m.Recall(), binary, shares)
    yield "auc", {}, "shares", "binary", value(m.AUC(), binary, shares)
    yield "pr_auc", {}, "shares", "binary", value(m.AUC(curve="PR"), binary, shares)
    yield "f1", {}, "shares", "binary", value(m.F1Score(average="micro", threshold=0.5), binary, shares)
    yield "true_positives", {}, "shares", "binary", value(m.TruePositives(), binary, shares)
    yield "true_negatives", {}, "shares", "binary", value(m.TrueNegatives(), binary, shares)
    yield "false_positives", {}, "shares", "binary", value(m.FalsePositives(), binary, shares)
    yield "false_negatives", {}, "shares", "binary", value(m.FalseNegatives(), binary, shares)
    yield "precision_at_recall", {"at": 0.6}, "shares", "binary", value(m.PrecisionAtRecall(0.6), binary, shares)
    yield "recall_at_precision", {"at": 0.6}, "shares", "binary", value(m.RecallAtPrecision(0.6), binary, shares)
    yield "sensitivity_at_specificity", {"at": 0.6}, "shares", "binary", value(
        m.SensitivityAtSpecificity(0.6), binary, shares
    )
    yield "specificity_at_sensitivity", {"at": 0.6}, "shares", "binary", value(
        m.SpecificityAtSensitivity(0.6), binary, shares
    )
    yield "mean_iou", {"classes": CLASSES}, "logits", "labels", value(
        m.MeanIoU(CLASSES), labels, logits.argmax(axis=1)
    )
    yield "binary_iou", {}, "shares", "binary", value(m.BinaryIoU(threshold=0.5), binary, shares)
    yield "mse", {}, "reals", "others", value(m.MeanSquaredError(), others, reals)
    yield "mae", {}, "reals", "others", value(m.MeanAbsoluteError(), others, reals)
    yield "rmse", {}, "reals", "others", value(m.RootMeanSquaredError(), others, reals)
    yield "r2", {}, "reals", "others", value(m.R2Score(), row(others)[:, None], row(reals)[:, None])
    yield "cosine", {}, "reals", "others", value(m.CosineSimilarity(), others, reals)
    x, y = row(reals).astype(np.float64), row(others).astype(np.float64)
    yield "pearson", {}, "reals", "others", float(np.corrcoef(x, y)[0, 1])
    said, true = row(shares) > 0.5, row(binary) > 0.5
    yield "matthews", {}, "shares", "binary", float(np.corrcoef(said.astype(float), true.astype(float))[0, 1])
    yield "perplexity", {}, "logits", "labels", float(
        np.exp(number(torch.nn.functional.cross_entropy(torch.tensor(logits), torch.tensor(labels))))
    )
    yield "mape", {}, "reals", "positive", value(m.MeanAbsolutePercentageError(), positive, reals)
    yield "categorical_hinge", {}, "reals", "one_hot", value(m.CategoricalHinge(), one_hot, reals)


def main():
    kept = lambda rows: [
        {"name": name, "settings": settings, "output": output, "target": target, "value": value}
        for name, settings, output, target, value in rows
    ]
    made = {
        "data": {
            name: {"shape": list(value.shape), "whole": bool(value.dtype.kind == "i"), "numbers": [float(x) for x in value.ravel()]}
            for name, value in DATA.items()
        },
        "losses": kept(losses()),
        "metrics": kept(metrics()),
    }
    with open(sys.argv[1], "w") as file:
        json.dump(made, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
