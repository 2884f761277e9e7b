"""Gradients of 4 batches of 64 added up for each update."""
import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.rand(4096, 32).astype(np.float32)
y = (x[:, 0] + x[:, 1] > x[:, 2] + x[:, 3]).astype(np.int32)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(64)

tf.keras.utils.set_random_seed(1)
model = tf.keras.Sequential([tf.keras.layers.Input(shape=(32,)), tf.keras.layers.Dense(64, activation="relu"),
                             tf.keras.layers.Dense(2)])
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.Adam(learning_rate=0.01)
accumulation_steps = 4
accumulated = [tf.Variable(tf.zeros_like(v), trainable=False) for v in model.trainable_variables]


@tf.function
def add_batch(batch_x, batch_y):
    with tf.GradientTape() as tape:
        loss = loss_fn(batch_y, model(batch_x, training=True)) / accumulation_steps
    for total, gradient in zip(accumulated, tape.gradient(loss, model.trainable_variables)):
        total.assign_add(gradient)
    return loss * accumulation_steps


losses = []
for epoch in range(4):
    for step, (batch_x, batch_y) in enumerate(dataset):
        losses.append(float(add_batch(batch_x, batch_y)))
        if (step + 1) % accumulation_steps == 0:
            optimizer.apply_gradients(zip(accumulated, model.trainable_variables))
            for total in accumulated:
                total.assign(tf.zeros_like(total))
print(f"steps {len(losses)} loss {np.mean(losses[:8]):.5f} -> {np.mean(losses[-8:]):.5f}")
