# Reads the files of bench/data with tf.data.
import os
from pathlib import Path

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

import numpy
import tensorflow as tf

import data_timing

MEAN = numpy.array([0.485, 0.456, 0.406], numpy.float32)
STDDEV = numpy.array([0.229, 0.224, 0.225], numpy.float32)


def images(folder, threads):
    classes = sorted(path.name for path in Path(folder).iterdir())
    files = [(str(path), label) for label, name in enumerate(classes) for path in sorted((Path(folder) / name).iterdir())]
    paths, labels = zip(*files)

    def decode(path, label):
        image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        return (tf.image.resize(image, [224, 224]) / 255 - MEAN) / STDDEV, label

    data = tf.data.Dataset.from_tensor_slices((list(paths), list(labels))).shuffle(len(paths))
    return data.map(decode, num_parallel_calls=threads).batch(32)


def rows(folder, setting, threads):
    x, y = (numpy.load(f'{folder}/{name}.npy', mmap_mode='r') for name in 'xy')
    if setting == 'rows':
        return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(y)).batch(64)
    x, y = tf.constant(x), tf.constant(y)  # a batch is gathered by one index
    indices = tf.data.Dataset.range(len(y)).shuffle(len(y)).batch(64)
    return indices.map(lambda i: (tf.gather(x, i), tf.gather(y, i)), num_parallel_calls=threads)


def records(folder, threads):
    features = {'label': tf.io.FixedLenFeature([], tf.int64), 'x': tf.io.FixedLenFeature([32], tf.float32)}
    data = tf.data.TFRecordDataset(f'{folder}/records.tfrecord', buffer_size=1 << 20).batch(64)
    data = data.map(lambda batch: tf.io.parse_example(batch, features), num_parallel_calls=threads)
    return data.map(lambda found: (found['x'], found['label']))


def main():
    arguments = data_timing.parse_arguments()
    tf.config.threading.set_inter_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    if arguments.what == 'images':
        data = images(f'{arguments.folder}/images', arguments.threads)
    elif arguments.what == 'rows':
        data = rows(arguments.folder, arguments.setting, arguments.threads)
    else:
        data = records(arguments.folder, arguments.threads)
    options = tf.data.Options()
    options.threading.private_threadpool_size = arguments.threads
    data = data.prefetch(2).with_options(options)

    def epoch():
        return sum(int(y.shape[0]) for _, y in data)

    data_timing.measure(arguments, epoch, f'tensorflow {tf.__version__}')


if __name__ == '__main__':
    main()
