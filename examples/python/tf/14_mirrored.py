"""Training in the scope of a MirroredStrategy."""
import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.rand(4096, 32).astype(np.float32)
y = x[:, :4].sum(1, keepdims=True)
strategy = tf.distribute.MirroredStrategy()
tf.keras.utils.set_random_seed(1)
with strategy.scope():
    inputs = tf.keras.Input(shape=(32,))
    hidden = tf.keras.layers.Dense(64, activation="relu")(inputs)
    outputs = tf.keras.layers.Dense(1)(hidden)
    model = tf.keras.Model(inputs, outputs)
    model.compile(optimizer=tf.keras.optimizers.Adam(0.01), loss="mse", metrics=["mae"])
losses = model.fit(x, y, batch_size=64 * strategy.num_replicas_in_sync, epochs=3, verbose=0).history["loss"]
print(f"replicas {strategy.num_replicas_in_sync} loss {losses[0]:.5f} -> {losses[-1]:.5f}")
