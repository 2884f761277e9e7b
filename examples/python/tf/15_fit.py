"""fit for 10 epochs with 4 workers, a validation set and callbacks."""
import math

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
images = rng.rand(2048, 12, 12, 1).astype(np.float32)
labels = (images[:, :6].mean((1, 2, 3)) > images[:, 6:].mean((1, 2, 3))).astype(np.int32)


class Batches(tf.keras.utils.PyDataset):
    def __init__(self, x, y, batch_size, **kwargs):
        super().__init__(**kwargs)
        self.x, self.y, self.batch_size = x, y, batch_size

    def __len__(self):
        return math.ceil(len(self.x) / self.batch_size)

    def __getitem__(self, i):
        part = slice(i * self.batch_size, (i + 1) * self.batch_size)
        return self.x[part], self.y[part]


tf.keras.utils.set_random_seed(1)
model = tf.keras.Sequential([
    tf.keras.layers.Input(shape=(12, 12, 1)),
    tf.keras.layers.Conv2D(8, 3, activation="relu"),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dropout(0.1),
    tf.keras.layers.Dense(2, activation="softmax"),
])
model.compile(optimizer=tf.keras.optimizers.Adam(learning_rate=0.01), loss="sparse_categorical_crossentropy",
              metrics=["accuracy"])
history = model.fit(Batches(images[:1792], labels[:1792], 32, workers=4), epochs=10, verbose=0,
                    validation_data=(images[1792:], labels[1792:]),
                    callbacks=[tf.keras.callbacks.EarlyStopping(monitor="val_loss", patience=10),
                               tf.keras.callbacks.ReduceLROnPlateau(patience=3)])
losses = history.history["loss"]
print(f"epochs {len(losses)} accuracy {history.history['val_accuracy'][-1]:.3f} loss {losses[0]:.5f} -> {losses[-1]:.5f}")
