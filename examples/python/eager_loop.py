"""A loop of one's own in eager code; the model that it trains is evaluated and saved like any other."""

import sys

import numpy as np

import plimsoll as pl

line = pl.Line("160MiB")
draw = np.random.default_rng(0)
x = draw.normal(size=(2048, 32)).astype("float32")
y = (x.sum(1) > 0).astype("int32")
data = pl.Dataset.from_tensor_slices((x, y)).shuffle(seed=1).batch(128)

net = pl.Sequential([pl.layers.Dense(64, activation="relu"), pl.layers.Dropout(0.1), pl.layers.Dense(2)])
net.compile(loss="sparse_categorical_crossentropy", metrics=["accuracy"])
adam = pl.Adam(1e-3)

with pl.Eager(line):
    for epoch in range(4):
        for images, labels in data:
            with pl.Tape() as tape:
                loss = pl.sparse_cross_entropy(net(images, training=True), labels)
            adam.apply(tape.gradient(loss, net.weights), net.weights)
        print(f"epoch {epoch}: loss {loss.item():.3f}")

print(net.evaluate(x, y, line=line))
if len(sys.argv) > 1:
    net.save(sys.argv[1])
