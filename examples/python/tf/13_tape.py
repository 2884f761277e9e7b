"""Map, shuffle 10,000, batch 32, prefetch, tape, apply."""
import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = (255 * rng.rand(10_000, 28, 28)).astype(np.uint8)
y = (x[:, :14].mean((1, 2)) > x[:, 14:].mean((1, 2))).astype(np.int64)


def preprocess(image, label):
    return tf.cast(image, tf.float32) / 255.0, label


dataset = tf.data.Dataset.from_tensor_slices((x, y))
dataset = dataset.map(preprocess).shuffle(buffer_size=10_000).batch(32).prefetch(buffer_size=tf.data.AUTOTUNE)

tf.keras.utils.set_random_seed(1)
model = tf.keras.Sequential([
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(64, activation="relu"),
    tf.keras.layers.Dense(10),
])
optimizer = tf.keras.optimizers.Adam(learning_rate=0.001)


@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        predictions = model(images, training=True)
        loss = tf.keras.losses.sparse_categorical_crossentropy(labels, predictions, from_logits=True)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return tf.reduce_mean(loss)


losses = [float(train_step(images, labels)) for images, labels in dataset]
print(f"steps {len(losses)} loss {np.mean(losses[:20]):.5f} -> {np.mean(losses[-20:]):.5f}")
