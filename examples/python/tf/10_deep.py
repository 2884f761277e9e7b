"""5000 dense layers of 100 units in a row on a batch of 1000: what is kept for the backward pass is 2 GB.

10_deep.py [LAYERS]
"""
import sys

import numpy as np
import tensorflow as tf

depth = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
tf.keras.utils.set_random_seed(1)
rng = np.random.RandomState(0)
x = tf.constant(rng.randn(1000, 100), dtype=tf.float32)
layers = [tf.keras.layers.Dense(100, kernel_initializer="orthogonal") for _ in range(depth)]
optimizer = tf.keras.optimizers.SGD(learning_rate=1e-3)
losses = []
for step in range(2):
    with tf.GradientTape() as tape:
        value = x
        for layer in layers:
            value = layer(value)
        loss = tf.reduce_mean(tf.square(value))
    variables = [variable for layer in layers for variable in layer.trainable_variables]
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    losses.append(float(loss))
print(f"layers {depth} loss {losses[0]:.5f} -> {losses[-1]:.5f}")
