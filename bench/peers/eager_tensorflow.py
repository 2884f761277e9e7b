# The loops of bench/eager in TensorFlow, eagerly: the same layers, sizes and optimiser. Prints one line of JSON.
import argparse
import json
import os
import statistics
import time

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import tensorflow as tf  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument('case')
parser.add_argument('--seconds', type=float, default=2)
parser.add_argument('--threads', type=int, default=2)
arguments = parser.parse_args()
tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
tf.config.threading.set_inter_op_parallelism_threads(1)
layers = tf.keras.layers


def transformer():
    x = source = layers.Input((128, 256))
    for _ in range(4):
        y = layers.LayerNormalization()(x)
        x = x + layers.MultiHeadAttention(4, 64)(y, y)
        y = layers.Dense(1024, activation='gelu')(layers.LayerNormalization()(x))
        x = x + layers.Dense(256)(y)
    return tf.keras.Model(source, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))


def make(name):
    if name == 'mlp':
        return (128, 784), tf.keras.Sequential([layers.Dense(512, activation='relu'), layers.Dense(512, activation='relu'),
                                                layers.Dense(10)])
    if name == 'lenet':  # channels last: the CPU has no others
        return (128, 28, 28, 1), tf.keras.Sequential([
            layers.Conv2D(6, 5, padding='same', activation='relu'), layers.MaxPool2D(), layers.Conv2D(16, 5, activation='relu'),
            layers.MaxPool2D(), layers.Flatten(), layers.Dense(120, activation='relu'), layers.Dense(84, activation='relu'),
            layers.Dense(10)])
    return (8, 128, 256), transformer()


shape, net = make(arguments.case)
x = tf.random.uniform(shape)
y = tf.range(shape[0]) % 10
net(x)
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimiser = tf.keras.optimizers.Adam()


def step():
    with tf.GradientTape() as tape:
        loss = loss_of(y, net(x, training=True))
    optimiser.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
    return float(loss)


for _ in range(3):
    step()
times, start = [], time.monotonic()
while time.monotonic() - start < arguments.seconds or len(times) < 5:
    before = time.monotonic()
    step()
    times.append((time.monotonic() - before) * 1e3)
print(json.dumps({'eager_ms': statistics.median(times), 'version': tf.__version__}))
