"""A slow map function beside the steps, with prefetch of autotuned depth and a placed device."""
import numpy as np
import tensorflow as tf

rows, columns = 4000, 64
numbers = np.arange(rows, dtype=np.float32)


def make_features(number):
    x = number / tf.range(1, columns + 1, dtype=tf.float32)
    for _ in range(4):
        x = tf.sin(x + 1.0)
    return x, tf.cast(tf.reduce_sum(x) > 30.0, tf.int32)


dataset = tf.data.Dataset.from_tensor_slices(numbers)
dataset = dataset.map(make_features, num_parallel_calls=tf.data.AUTOTUNE).batch(64)
dataset = dataset.prefetch(buffer_size=tf.data.AUTOTUNE)
tf.keras.utils.set_random_seed(1)
with tf.device("/GPU:0" if tf.config.list_physical_devices("GPU") else "/CPU:0"):
    model = tf.keras.Sequential([tf.keras.layers.Dense(256, activation="relu"), tf.keras.layers.Dense(2)])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.1),
                  loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    losses = model.fit(dataset, epochs=3, verbose=0).history["loss"]
print(f"rows {rows} loss {losses[0]:.5f} -> {losses[-1]:.5f}")
