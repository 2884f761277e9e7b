"""What fit, evaluate and predict are given, as batches: arrays, tensors, datasets, generators, sequences."""
import numpy as np

from ... import _engine, nest
from ..._convert import convert, is_tensor
from ..._random import generator
from ..._tensor import of_host
from ...data import Dataset


def unpack_x_y_sample_weight(data):
    if isinstance(data, list):
        data = tuple(data)
    if not isinstance(data, tuple):
        return data, None, None
    if len(data) == 1:
        return data[0], None, None
    if len(data) == 2:
        return data[0], data[1], None
    if len(data) == 3:
        return data
    raise ValueError("Data is expected to be in format `x`, `(x,)`, `(x, y)`, or `(x, y, sample_weight)`, found: "
                     f"{data}")


def pack_x_y_sample_weight(x, y=None, sample_weight=None):
    if y is None:
        return x if not isinstance(x, (tuple, list)) else (x,)
    return (x, y) if sample_weight is None else (x, y, sample_weight)


def _rows(value):
    """Something whose rows are taken by number: an array as it is, also one mapped from a file."""
    if value is None:
        return None
    if isinstance(value, np.ndarray) or is_tensor(value):
        return value
    if hasattr(value, "to_numpy"):
        return value.to_numpy()
    return np.asarray(value)


def _count(value):
    return int(value.shape[0])


def take_rows(value, places):
    """Rows of an array, of a tensor, or of a structure of them."""
    def take(one):
        if isinstance(one, np.ndarray):
            if isinstance(places, slice):
                part = one[places]
            else:
                part = np.take(one, places, axis=0)
            return of_host(part)
        tensor = convert(one)
        if tensor.is_on_host:
            return of_host(tensor._host[places])
        if isinstance(places, slice):
            return tensor[places]
        from ..._array import gather
        return gather(tensor, places.astype(np.int32))
    return nest.map_structure(take, value)


class Batches:
    """Batches for some epochs."""

    size = None      # of an epoch; None: not known
    batch_size = None

    def epoch(self):
        raise NotImplementedError

    def on_epoch_end(self):
        pass


class ArrayBatches(Batches):
    def __init__(self, x, y, sample_weight, batch_size, shuffle):
        self.data = tuple(None if one is None else nest.map_structure(_rows, one) for one in (x, y, sample_weight))
        counts = {_count(one) for part in self.data if part is not None for one in nest.flatten(part)}
        if len(counts) != 1:
            raise ValueError("Data cardinality is ambiguous. Make sure all arrays contain the same number of samples."
                             f"The sizes are {sorted(counts)}")
        self.count = counts.pop()
        self.batch_size = int(batch_size or 32)
        self.shuffle = shuffle
        self.size = -(-self.count // self.batch_size)

    def epoch(self):
        order = generator().permutation(self.count) if self.shuffle else None
        for first in range(0, self.count, self.batch_size):
            places = slice(first, min(first + self.batch_size, self.count)) if order is None \
                else order[first:first + self.batch_size]
            if self.shuffle and not isinstance(places, slice):
                places = np.ascontiguousarray(places)
            yield pack(*(None if part is None else take_rows(part, places) for part in self.data))


def pack(x, y, sample_weight):
    if sample_weight is not None:
        return x, y, sample_weight
    return (x, y) if y is not None else (x,)


class DatasetBatches(Batches):
    def __init__(self, dataset):
        self.dataset = dataset
        count = dataset.cardinality_or_none()
        self.size = count if count is not None and count >= 0 else None

    def epoch(self):
        return iter(self.dataset)


class SequenceBatches(Batches):
    """keras.utils.Sequence and PyDataset: batches by number."""

    def __init__(self, sequence, shuffle):
        self.sequence, self.shuffle = sequence, shuffle
        self.size = len(sequence)

    def epoch(self):
        order = generator().permutation(self.size) if self.shuffle else range(self.size)
        for i in order:
            yield _as_tensors(self.sequence[int(i)])

    def on_epoch_end(self):
        if hasattr(self.sequence, "on_epoch_end"):
            self.sequence.on_epoch_end()


class GeneratorBatches(Batches):
    """An iterator of Python: it goes on where the epoch before ended."""

    def __init__(self, iterator):
        self.iterator = iter(iterator)
        self.is_over = False

    def epoch(self):
        count = 0
        for batch in self.iterator:
            count += 1
            yield _as_tensors(batch)
        if count == 0:
            _engine.note("exhausted", "Your input ran out of data: the generator is exhausted after its first epoch. "
                                      "Give steps_per_epoch and a generator that goes on, or a tf.data.Dataset")
        self.is_over = True


def _as_tensors(batch):
    if isinstance(batch, list):
        batch = tuple(batch)
    return nest.map_structure(lambda one: None if one is None else convert(one), batch)


def batches_of(x, y=None, sample_weight=None, batch_size=None, shuffle=False, class_weight=None):
    """The batches of what was given."""
    if isinstance(x, Dataset) or hasattr(x, "cardinality_or_none"):
        _expect_alone(y, "a dataset")
        made = DatasetBatches(x)
    elif hasattr(x, "__getitem__") and hasattr(x, "__len__") and not isinstance(x, (np.ndarray, list, tuple, dict)) \
            and not is_tensor(x) and not hasattr(x, "to_numpy"):
        _expect_alone(y, "a sequence")
        made = SequenceBatches(x, shuffle is True)
    elif hasattr(x, "__next__") or (hasattr(x, "__iter__") and not hasattr(x, "__len__") and not is_tensor(x)):
        _expect_alone(y, "a generator")
        made = GeneratorBatches(x)
    else:
        made = ArrayBatches(x, y, sample_weight, batch_size, bool(shuffle))
    return WeighedBatches(made, class_weight) if class_weight is not None else made


class WeighedBatches(Batches):
    """The same with weights for samples of each class."""

    def __init__(self, inner, class_weight):
        self.inner, self.size, self.batch_size = inner, inner.size, inner.batch_size
        self.table = np.ones(int(max(class_weight)) + 1, np.float32)
        for number, weight in class_weight.items():
            self.table[int(number)] = weight

    def epoch(self):
        for batch in self.inner.epoch():
            x, y, weight = unpack_x_y_sample_weight(batch)
            labels = np.asarray(y)
            if labels.ndim > 1:
                labels = labels.argmax(-1) if labels.shape[-1] > 1 else labels[..., 0]
            places = labels.astype(np.int64)
            found = np.where(places < len(self.table), self.table[np.minimum(places, len(self.table) - 1)], 1)
            weights = found.astype(np.float32)
            yield x, y, of_host(weights if weight is None else weights * np.asarray(weight))

    def on_epoch_end(self):
        self.inner.on_epoch_end()


def _expect_alone(y, what):
    if y is not None:
        raise ValueError(f"When providing `x` as {what}, `y` should not be passed. Instead, the targets should be "
                         "included as part of it.")


def split_off(x, y, sample_weight, share):
    """The last samples, for validation."""
    def parts(value):
        if value is None:
            return None, None
        rows = nest.map_structure(_rows, value)
        count = _count(nest.flatten(rows)[0])
        at = int(np.floor(count * (1 - share)))
        if at == 0 or at == count:
            raise ValueError(f"Training data contains {count} samples, which is not sufficient to split it into a "
                             f"validation and training set as specified by `validation_split={share}`.")
        return nest.map_structure(lambda one: one[:at], rows), nest.map_structure(lambda one: one[at:], rows)
    return zip(*(parts(one) for one in (x, y, sample_weight)))
