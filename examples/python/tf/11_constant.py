"""100,000 x 100 rows as one constant against a dataset of batches of 32."""
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
rows = rng.random((100_000, 100), np.float32)

constant = tf.constant(rows)
whole = float(tf.reduce_mean(tf.square(constant)))
del constant

total, batches = 0.0, 0
for batch in tf.data.Dataset.from_tensor_slices(rows).batch(32):
    total += float(tf.reduce_sum(tf.square(batch)))
    batches += 1
print(f"batches {batches} loss {whole:.5f} -> {total / rows.size:.5f}")
