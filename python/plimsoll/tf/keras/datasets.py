"""tf.keras.datasets: files that are on this machine already; nothing is fetched from a network."""
import gzip
import os
import types

import numpy as np

from .._absent import absent


def _cached(name):
    return os.path.join(os.environ.get("KERAS_HOME", os.path.expanduser("~/.keras")), "datasets", name)


def _idx(path):
    with gzip.open(path, "rb") as file:
        data = file.read()
    rank = data[3]
    sizes = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(rank)]
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(sizes).copy()


def _four(folder):
    return tuple(tuple(_idx(os.path.join(folder, f"{half}-{what}-ubyte.gz")) for what in ("images-idx3", "labels-idx1"))
                 for half in ("train", "t10k"))


def _absent(name, wanted):
    return FileNotFoundError(f"tf.keras.datasets.{name}: {wanted} is not there, and plimsoll.tf fetches nothing from a "
                             "network. Put the file there")


def _mnist(path="mnist.npz"):
    if not os.path.exists(_cached(path)):
        raise _absent("mnist", _cached(path))
    with np.load(_cached(path)) as file:
        return (file["x_train"], file["y_train"]), (file["x_test"], file["y_test"])


def _fashion_mnist():
    for folder in (_cached("fashion-mnist"), "/usr/share/datasets/fashion-mnist"):
        if os.path.exists(os.path.join(folder, "train-images-idx3-ubyte.gz")):
            return _four(folder)
    raise _absent("fashion_mnist", _cached("fashion-mnist") + ", or Debian's package dataset-fashion-mnist,")


def _cifar10():
    import pickle
    folder = _cached("cifar-10-batches-py")
    if not os.path.isdir(folder):
        raise _absent("cifar10", folder)

    def read(name):
        with open(os.path.join(folder, name), "rb") as file:
            part = pickle.load(file, encoding="bytes")
        return part[b"data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), np.array(part[b"labels"], np.uint8)[:, None]
    parts = [read(f"data_batch_{i}") for i in range(1, 6)]
    return (np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])), read("test_batch")


mnist = types.SimpleNamespace(load_data=_mnist)
fashion_mnist = types.SimpleNamespace(load_data=_fashion_mnist)
cifar10 = types.SimpleNamespace(load_data=_cifar10)
__getattr__ = absent("tf.keras.datasets", globals())
