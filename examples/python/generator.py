"""Data that a Python generator makes, mapped by operators, batched and read ahead."""

from typing import Iterator

import numpy as np

import plimsoll as pl


def measurements() -> Iterator[tuple[np.ndarray, int]]:
    draw = np.random.default_rng(0)
    for _ in range(4000):
        x = draw.normal(size=24)
        yield x, int(x[:12].sum() > x[12:].sum())


def scaled(x: pl.Tensor, y: pl.Tensor) -> tuple[pl.Tensor, pl.Tensor]:
    return x * 0.5, y


line = pl.Line("160MiB")
data = pl.Dataset.from_generator(measurements).map(scaled).shuffle(512).batch(64).prefetch(2)
net = pl.Sequential([pl.layers.Dense(64, activation="relu"), pl.layers.Dense(2)])
net.compile("adam", "sparse_categorical_crossentropy", ["accuracy"])
print(net.fit(data, line, epochs=4, verbose=0))
