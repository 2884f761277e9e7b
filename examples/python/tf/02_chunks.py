"""Trains from chunks of 10,000 rows of a 1,000,000 x 100 array in a file, which is never in memory as a whole.

02_chunks.py [ROWS]
"""
import os
import sys
import tempfile

import numpy as np
import tensorflow as tf

rows, chunk = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000, 10_000
folder = tempfile.mkdtemp()
path = os.path.join(folder, "x.dat")
rng = np.random.default_rng(0)
with open(path, "wb") as file:
    for first in range(0, rows, chunk):
        file.write(rng.random((min(chunk, rows - first), 100), np.float32).tobytes())


def data_generator():
    for first in range(0, rows, chunk):
        count = min(chunk, rows - first)
        part = np.fromfile(path, np.float32, count * 100, offset=first * 400).reshape(count, 100)
        yield part, part[:, :50].sum(1) > part[:, 50:].sum(1)


model = tf.keras.Sequential([tf.keras.layers.Dense(32, activation="relu"), tf.keras.layers.Dense(1)])
loss_of = tf.keras.losses.BinaryCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.Adam(learning_rate=0.01)
tf.keras.utils.set_random_seed(1)
losses = []
for epoch in range(2):
    for x, y in data_generator():
        with tf.GradientTape() as tape:
            loss = loss_of(tf.cast(y, tf.float32), model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        losses.append(float(loss))
os.remove(path)
os.rmdir(folder)
print(f"steps {len(losses)} loss {losses[0]:.5f} -> {losses[-1]:.5f}")
