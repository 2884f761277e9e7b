"""ImageDataGenerator: batches of images, scaled and mirrored."""
import os

import numpy as np

from ..._random import generator
from ..utils import PyDataset, load_img, to_categorical


class Batches(PyDataset):
    """Batches by number, and as an iterator that goes on for ever."""

    def __init__(self, count, read, labels, batch_size, shuffle, seed):
        super().__init__()
        self.n, self._read, self.labels, self.batch_size = count, read, labels, batch_size
        self._shuffle, self._draw = shuffle, generator(seed)
        self._at = 0
        self.on_epoch_end()

    def on_epoch_end(self):
        self._order = self._draw.permutation(self.n) if self._shuffle else np.arange(self.n)

    def __len__(self):
        return -(-self.n // self.batch_size)

    def __getitem__(self, index):
        places = self._order[index * self.batch_size:(index + 1) * self.batch_size]
        images = np.stack([self._read(int(i), self._draw) for i in places])
        return images if self.labels is None else (images, self.labels[places])

    def __iter__(self):
        return self

    def __next__(self):
        if self._at == len(self):
            self._at = 0
            self.on_epoch_end()
        self._at += 1
        return self[self._at - 1]

    next = __next__

    @property
    def samples(self):
        return self.n


class ImageDataGenerator:
    def __init__(self, rescale=None, horizontal_flip=False, vertical_flip=False, preprocessing_function=None,
                 validation_split=0.0, brightness_range=None, dtype="float32", **kwargs):
        moved = {key: value for key, value in kwargs.items() if value not in (0, 0.0, False, None, "nearest")}
        if moved:
            raise NotImplementedError(f"plimsoll.tf: ImageDataGenerator scales and mirrors; {', '.join(sorted(moved))} are not "
                                      "there. tf.keras.layers.RandomTranslation and RandomCrop move images")
        self.rescale, self.horizontal_flip, self.vertical_flip = rescale, horizontal_flip, vertical_flip
        self.preprocessing_function, self.validation_split = preprocessing_function, validation_split
        self.brightness_range, self.dtype = brightness_range, dtype

    def _changed(self, image, draw):
        image = np.asarray(image, self.dtype)
        if self.horizontal_flip and draw.random() < 0.5:
            image = image[:, ::-1]
        if self.vertical_flip and draw.random() < 0.5:
            image = image[::-1]
        if self.brightness_range is not None:
            image = np.clip(image * draw.uniform(*self.brightness_range), 0, 255).astype(self.dtype)
        if self.preprocessing_function is not None:
            image = np.asarray(self.preprocessing_function(image), self.dtype)
        return image * np.asarray(self.rescale, self.dtype) if self.rescale else image

    def fit(self, x, augment=False, rounds=1, seed=None):
        pass

    def flow(self, x, y=None, batch_size=32, shuffle=True, sample_weight=None, seed=None, subset=None, **kwargs):
        x, y = np.asarray(x), None if y is None else np.asarray(y)
        if subset is not None:
            at = int(len(x) * self.validation_split)
            part = slice(0, at) if subset == "validation" else slice(at, None)
            x, y = x[part], None if y is None else y[part]
        return Batches(len(x), lambda i, draw: self._changed(x[i], draw), y, batch_size, shuffle, seed)

    def flow_from_directory(self, directory, target_size=(256, 256), color_mode="rgb", classes=None,
                            class_mode="categorical", batch_size=32, shuffle=True, seed=None, subset=None,
                            interpolation="nearest", **kwargs):
        names = classes or sorted(one for one in os.listdir(directory) if os.path.isdir(os.path.join(directory, one)))
        paths, numbers = [], []
        for i, name in enumerate(names):
            files = sorted(one for one in os.listdir(os.path.join(directory, name))
                           if one.lower().endswith((".jpg", ".jpeg", ".png")))
            at = int(len(files) * self.validation_split)
            files = files[:at] if subset == "validation" else files[at:] if subset == "training" else files
            paths += [os.path.join(directory, name, one) for one in files]
            numbers += [i] * len(files)
        print(f"Found {len(paths)} images belonging to {len(names)} classes.")
        labels = np.array(numbers, np.int32)
        if class_mode == "categorical":
            labels = to_categorical(labels, len(names)).astype(np.float32)
        elif class_mode in ("binary", "sparse"):
            labels = labels.astype(np.float32)
        made = Batches(len(paths), lambda i, draw: self._changed(load_img(paths[i], color_mode, target_size, interpolation), draw),
                       None if class_mode is None else labels, batch_size, shuffle, seed)
        made.class_indices, made.classes, made.filenames = {name: i for i, name in enumerate(names)}, np.array(numbers), paths
        made.num_classes = len(names)
        return made
