"""What happens when it does not fit: a forecast says so, and fit refuses before it reads anything."""

import numpy as np

import plimsoll as pl

line = pl.Line("96MiB")
x = np.zeros((512, 1024), "float32")
y = np.zeros(512, "int32")
net = pl.Sequential([pl.layers.Dense(4096, activation="relu"), pl.layers.Dense(4096, activation="relu"), pl.layers.Dense(10)])
net.compile("adam", "sparse_categorical_crossentropy")

forecast = net.plan(x, y, line, batch_size=128)
print(forecast.fits, pl.format_bytes(forecast.peak))
for remedy in forecast.remedies:
    print(f"  {remedy.text} ({remedy.slowdown:+.0f} %)")
try:
    net.fit(x, y, line=line, batch_size=128)
except pl.DoesNotFit as refused:
    print(pl.format_bytes(refused.deficit), "too much;", pl.format_bytes(refused.smallest_line), "would do")
    for holder in refused.holders[:3]:
        print(f"  {holder.name} ({holder.tag}): {pl.format_bytes(holder.bytes)}")
