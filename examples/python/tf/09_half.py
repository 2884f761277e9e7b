"""Half-precision policy: values are kept in 16 bits, weights and the last layer in 32."""
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, mixed_precision

policy = mixed_precision.Policy("mixed_float16")
mixed_precision.set_global_policy(policy)

rng = np.random.RandomState(0)
x = rng.rand(4096, 64).astype(np.float32)
y = (x[:, :32].sum(1) > x[:, 32:].sum(1)).astype(np.int32)
tf.keras.utils.set_random_seed(1)
model = tf.keras.Sequential([
    layers.Input(shape=(64,)),
    layers.Dense(256, activation="relu"),
    layers.Dense(256, activation="relu"),
    layers.Dense(2, dtype="float32"),
])
model.compile(optimizer=tf.keras.optimizers.Adam(), loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
losses = model.fit(x, y, batch_size=128, epochs=5, shuffle=False, verbose=0).history["loss"]
print(f"compute {policy.compute_dtype} variables {model.layers[0].kernel.dtype} loss {losses[0]:.5f} -> {losses[-1]:.5f}")
