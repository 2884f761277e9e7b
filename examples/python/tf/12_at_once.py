"""20,000 rows at once against batches of 64."""
import time

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.rand(20_000, 100).astype(np.float32)
y = (x[:, :50].sum(1) > x[:, 50:].sum(1)).astype(np.float32)


def train(batch_size, epochs):
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([tf.keras.layers.Dense(256, activation="relu"), tf.keras.layers.Dense(256, activation="relu"),
                                 tf.keras.layers.Dense(1, activation="sigmoid")])
    model.compile(optimizer="adam", loss="binary_crossentropy")
    start = time.time()
    history = model.fit(x, y, batch_size=batch_size, epochs=epochs, verbose=0)
    return history.history["loss"][-1], time.time() - start


at_once, first = train(len(x), 4)
in_batches, second = train(64, 1)
print(f"at once {first:.1f} s, in batches {second:.1f} s, loss {at_once:.5f} -> {in_batches:.5f}")
