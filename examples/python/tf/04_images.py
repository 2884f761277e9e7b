"""Trains from a folder of JPEGs: read, decoded and resized to 224 x 224 while it trains, 32 a batch.

04_images.py FOLDER     each sub-folder is a class
"""
import glob
import os
import sys

import tensorflow as tf

folder = sys.argv[1]
classes = sorted(os.listdir(folder))
paths = sorted(glob.glob(os.path.join(folder, "*", "*.jpg")))
labels = [classes.index(os.path.basename(os.path.dirname(path))) for path in paths]


def load_image(path, label):
    image = tf.io.read_file(path)
    image = tf.image.decode_jpeg(image, channels=3)
    image = tf.image.resize(image, [224, 224])
    return tf.cast(image, tf.float32) / 255.0, label


dataset = tf.data.Dataset.from_tensor_slices((paths, labels))
dataset = dataset.map(load_image, num_parallel_calls=tf.data.AUTOTUNE)
dataset = dataset.shuffle(buffer_size=len(paths) if len(paths) < 64 else 64, seed=1).batch(32)
dataset = dataset.prefetch(buffer_size=tf.data.AUTOTUNE)

tf.keras.utils.set_random_seed(1)
model = tf.keras.Sequential([
    tf.keras.layers.Input(shape=(224, 224, 3)),
    tf.keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Conv2D(32, 3, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(len(classes)),
])
model.compile(optimizer=tf.keras.optimizers.Adam(learning_rate=0.01),
              loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
history = model.fit(dataset, epochs=4, verbose=0)
losses = history.history["loss"]
print(f"images {len(paths)} loss {losses[0]:.5f} -> {losses[-1]:.5f}")
