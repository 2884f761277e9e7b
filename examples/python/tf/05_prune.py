"""Prunes from 50 % to 80 % between steps 1000 and 10000, strips, and compares size and accuracy.

05_prune.py [SCALE]     steps of the schedule, and samples, are divided by SCALE
"""
import gzip
import os
import sys
import tempfile

os.environ["TF_USE_LEGACY_KERAS"] = "1"  # tensorflow-model-optimization works with Keras 2
import numpy as np
import tensorflow as tf
import tensorflow_model_optimization as tfmot

scale = int(sys.argv[1]) if len(sys.argv) > 1 else 1
rng = np.random.RandomState(0)
count = 64 * 11_000 // 10 // scale
centres = rng.randn(10, 64)
y = rng.randint(0, 10, count)
x = (centres[y] + 0.8 * rng.randn(count, 64)).astype(np.float32)

tf.keras.utils.set_random_seed(1)
model = tf.keras.Sequential([
    tf.keras.layers.Dense(256, activation="relu", input_shape=(64,)),
    tf.keras.layers.Dense(256, activation="relu"),
    tf.keras.layers.Dense(10),
])
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
model.fit(x, y, batch_size=64, epochs=2, verbose=0)
before = model.evaluate(x, y, batch_size=1024, verbose=0)

pruning_params = {
    "pruning_schedule": tfmot.sparsity.keras.PolynomialDecay(
        initial_sparsity=0.50, final_sparsity=0.80, begin_step=1000 // scale, end_step=10_000 // scale,
        frequency=max(1, 100 // scale)),
}
pruned = tfmot.sparsity.keras.prune_low_magnitude(model, **pruning_params)
pruned.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
pruned.fit(x, y, batch_size=64, epochs=10, verbose=0, callbacks=[tfmot.sparsity.keras.UpdatePruningStep()])
stripped = tfmot.sparsity.keras.strip_pruning(pruned)
stripped.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
after = stripped.evaluate(x, y, batch_size=1024, verbose=0)


def compressed_bytes(weights):
    path = os.path.join(tempfile.mkdtemp(), "weights.gz")
    with gzip.open(path, "wb") as file:
        for one in weights:
            file.write(np.asarray(one).tobytes())
    return os.path.getsize(path)


zeros = np.mean([np.mean(one == 0) for one in stripped.get_weights() if one.ndim == 2])
whole = compressed_bytes([rng.randn(*one.shape).astype(np.float32) for one in stripped.get_weights()])
print(f"zeros {zeros:.3f} size {whole} -> {compressed_bytes(stripped.get_weights())} "
      f"accuracy {before[1]:.3f} -> {after[1]:.3f} loss {before[0]:.5f} -> {after[0]:.5f}")
