"""Ten lines that train below a line."""

import numpy as np

import plimsoll as pl

line = pl.Line("160MiB")  # the whole process, the interpreter and NumPy included
x = np.random.default_rng(0).normal(size=(4096, 32)).astype("float32")
y = (x[:, :16].sum(1) > x[:, 16:].sum(1)).astype("int32")
net = pl.Sequential([pl.layers.Dense(256, activation="relu"), pl.layers.Dense(2)])
net.compile(optimizer=pl.Adam(1e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
history = net.fit(x, y, line=line, epochs=5)
print(net.evaluate(x, y, line=line), pl.format_bytes(pl.peak_resident_bytes()))
