"""A heavy computation as a traced function."""
import numpy as np
import tensorflow as tf


@tf.function
def heavy_computation(x):
    for _ in range(10):
        x = tf.nn.softmax(tf.matmul(x, x) / 16.0)
    return tf.reduce_sum(x * x)


rng = np.random.RandomState(0)
values = []
for i in range(20):
    values.append(heavy_computation(tf.constant(rng.randn(256, 256), dtype=tf.float32)))
values = np.array(values)
print(f"calls {len(values)} loss {values[0]:.5f} -> {values[-1]:.5f}")
