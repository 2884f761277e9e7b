"""tf.keras.utils."""
import os
import random
import sys

import numpy as np

from .. import _random
from .._absent import absent
from .._convert import convert
from .models._saving import CustomObjects, get_custom_objects, register_keras_serializable

custom_object_scope = CustomObjects


def set_random_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    _random.set_seed(seed)


def to_categorical(x, num_classes=None):
    numbers = np.asarray(x, dtype="int64")
    shape = numbers.shape[:-1] if numbers.ndim > 1 and numbers.shape[-1] == 1 else numbers.shape
    flat = numbers.reshape(-1)
    count = int(num_classes) if num_classes else int(flat.max()) + 1
    made = np.zeros((len(flat), count))
    made[np.arange(len(flat)), flat] = 1
    return made.reshape(shape + (count,))


def normalize(x, axis=-1, order=2):
    x = np.asarray(x)
    length = np.atleast_1d(np.linalg.norm(x, order, axis))
    length[length == 0] = 1
    return x / np.expand_dims(length, axis)


def pad_sequences(sequences, maxlen=None, dtype="int32", padding="pre", truncating="pre", value=0.0):
    longest = max((len(one) for one in sequences), default=0) if maxlen is None else maxlen
    tail = np.asarray(next((one for one in sequences if len(one)), [])).shape[1:]
    made = np.full((len(sequences), longest, *tail), value, dtype)
    for row, one in zip(made, sequences):
        if not len(one):
            continue
        one = np.asarray(one[-longest:] if truncating == "pre" else one[:longest], dtype)
        if padding == "post":
            row[:len(one)] = one
        else:
            row[longest - len(one):] = one
    return made


class PyDataset:
    """Batches by number; __len__ and __getitem__ are the program's."""

    def __init__(self, workers=1, use_multiprocessing=False, max_queue_size=10):
        pass

    def __getitem__(self, index):
        raise NotImplementedError

    def __len__(self):
        raise NotImplementedError

    def on_epoch_end(self):
        pass


Sequence = PyDataset


class Progbar:
    def __init__(self, target, width=20, verbose=1, interval=0.05, stateful_metrics=None, unit_name="step"):
        self.target, self.verbose = target, verbose

    def update(self, current, values=None, finalize=None):
        if self.verbose and (finalize or current == self.target):
            shown = " - ".join(f"{name}: {float(value):.4f}" for name, value in values or [])
            print(f"{current}/{self.target} - {shown}")
            sys.stdout.flush()

    def add(self, n, values=None):
        self.update(n, values)


def image_dataset_from_directory(directory, labels="inferred", label_mode="int", class_names=None, color_mode="rgb",
                                 batch_size=32, image_size=(256, 256), shuffle=True, seed=None, validation_split=None,
                                 subset=None, interpolation="bilinear", follow_links=False, crop_to_aspect_ratio=False,
                                 **kwargs):
    """Images of a folder with a folder for each class, read and resized while it is iterated."""
    from ..data import Dataset
    from .._image import decode_image, resize
    from ..io import read_file
    names = class_names or sorted(one for one in os.listdir(directory) if os.path.isdir(os.path.join(directory, one)))
    paths, numbers = [], []
    for i, name in enumerate(names):
        for folder, _, files in sorted(os.walk(os.path.join(directory, name))):
            for file in sorted(files):
                if file.lower().endswith((".jpg", ".jpeg", ".png")):
                    paths.append(os.path.join(folder, file))
                    numbers.append(i)
    if not paths:
        raise ValueError(f"No images found in directory {directory}. Allowed formats: ('.jpg', '.jpeg', '.png')")
    order = np.arange(len(paths))
    if shuffle:
        np.random.default_rng(seed).shuffle(order)
    if validation_split:
        count = int(validation_split * len(paths))
        order = order[:-count] if subset == "training" else order[-count:]
    channels = {"rgb": 3, "grayscale": 1, "rgba": 4}[color_mode]
    chosen = np.array([paths[i].encode() for i in order], object)
    targets = np.array([numbers[i] for i in order], np.int32)
    if label_mode == "categorical":
        targets = to_categorical(targets, len(names)).astype(np.float32)
    elif label_mode == "binary":
        targets = targets.astype(np.float32)[:, None]

    def read(path):
        return resize(decode_image(read_file(path), channels=channels), image_size, interpolation)
    if label_mode is None or labels is None:
        made = Dataset.from_tensor_slices(chosen).map(read)
    else:
        made = Dataset.from_tensor_slices((chosen, targets))
        made = (made.shuffle(8 * (batch_size or 32), seed=seed) if shuffle else made).map(lambda path, y: (read(path), y))
    made = made.batch(batch_size) if batch_size is not None else made
    made.class_names, made.file_paths = names, [paths[i] for i in order]
    return made


def get_file(fname=None, origin=None, **kwargs):
    raise NotImplementedError("plimsoll.tf fetches nothing from a network: give the path of a file that is there")


def load_img(path, color_mode="rgb", target_size=None, interpolation="nearest", keep_aspect_ratio=False):
    from .._image import decode_image, resize
    from ..io import read_file
    made = decode_image(read_file(path), channels={"rgb": 3, "grayscale": 1, "rgba": 4}[color_mode])
    return made if target_size is None else resize(made, target_size, interpolation)


def img_to_array(img, data_format=None, dtype=None):
    return np.asarray(img, dtype or "float32")


def array_to_img(x, **kwargs):
    return np.asarray(x)


def plot_model(model, *args, **kwargs):
    raise NotImplementedError("plimsoll.tf draws no models: model.summary() prints one")


def serialize_keras_object(value):
    from .models._saving import _plain
    return _plain(value)


def get_registered_object(name, custom_objects=None, module_objects=None):
    return get_custom_objects().get(name)


def is_keras_tensor(x):
    return bool(getattr(convert(x), "is_symbolic", False))


__getattr__ = absent("tf.keras.utils", globals(), {"FeatureSpace": "layers of your own"})
