"""tf.data.Dataset: sources and stages, one element at a time; rows of arrays are taken by number, never as a whole."""
import itertools

import numpy as np

from .. import _engine, _types, nest
from .._array import stack
from .._control import arguments_of
from .._convert import convert, is_tensor
from .._elementwise import Host
from .._random import State, generator
from .._tensor import Tensor, of_host
from .._types import TensorShape, TensorSpec, as_dtype
from ..errors import InvalidArgumentError, OutOfRangeError

AUTOTUNE = -1
INFINITE_CARDINALITY, UNKNOWN_CARDINALITY = -1, -2


def _row_source(value):
    """Something with rows: an array as it is, a tensor, or a list made an array."""
    if isinstance(value, np.ndarray) or is_tensor(value):
        return value.read_value() if hasattr(value, "is_variable") else value
    if hasattr(value, "to_numpy"):
        return value.to_numpy()
    return convert(value)


def _rows(value, places):
    if isinstance(value, np.ndarray):
        part = value[places]
        if value.dtype.kind in "USO":
            return convert(part)
        return of_host(np.asarray(part))
    if value.is_on_host:
        return of_host(np.asarray(value._host[places], value._host.dtype), value._label)
    if isinstance(places, (int, np.integer, slice)):
        return value[int(places) if not isinstance(places, slice) else places]
    from .._array import gather
    return gather(value, np.asarray(places, np.int32))


def _structure(value):
    """TensorFlow's structures: a list is a tensor, a tuple is a structure."""
    if isinstance(value, tuple):
        return nest.rebuild(value, [_structure(one) for one in value])
    if isinstance(value, dict):
        return {key: _structure(one) for key, one in value.items()}
    return value


def _over(function, *structures):
    first = structures[0]
    if isinstance(first, tuple):
        return nest.rebuild(first, [_over(function, *parts) for parts in zip(*structures)])
    if isinstance(first, dict):
        return {key: _over(function, *(one[key] for one in structures)) for key in first}
    return function(*structures)


def _leaves(structure):
    if isinstance(structure, tuple):
        return [leaf for part in structure for leaf in _leaves(part)]
    if isinstance(structure, dict):
        return [leaf for part in structure.values() for leaf in _leaves(part)]
    return [structure]


def _called(function, element):
    with Host():
        if isinstance(element, tuple):
            return function(*element)
        return function(element)


def _as_element(made):
    if isinstance(made, list):
        made = convert(made)
    if isinstance(made, tuple):
        return nest.rebuild(made, [_as_element(one) for one in made])
    if isinstance(made, dict):
        return {key: _as_element(one) for key, one in made.items()}
    if made is None or isinstance(made, Dataset):
        return made
    return convert(made)


class Dataset:
    """Elements one after another. Each call of a stage makes another dataset."""

    def __init__(self, iterate, size=None, take=None, order=None, spec=None):
        self._iterate = iterate  # makes an iterator over elements
        self._size = size        # how many there are; None: not known; -1: no end
        self._take = take        # rows of the source by number, for several elements at once
        self._order = order      # makes an iterator over these numbers
        self._spec = spec

    # Sources.

    @staticmethod
    def from_tensor_slices(tensors, name=None):
        source = _over(_row_source, _structure(tensors))
        counts = {int(one.shape[0]) if len(one.shape) else None for one in _leaves(source)}
        if None in counts:
            raise ValueError("Unbatching a tensor is only supported for rank >= 1")
        if len(counts) != 1:
            raise InvalidArgumentError(f"Dimensions {' and '.join(str(one) for one in sorted(counts))} are not compatible")
        count = counts.pop()

        def take(places):
            return _over(lambda one: _rows(one, places), source)
        spec = _over(lambda one: TensorSpec(tuple(one.shape)[1:], _types.as_dtype(one.dtype)), source)
        return Dataset(None, count, take, lambda: iter(range(count)), spec)

    @staticmethod
    def from_tensors(tensors, name=None):
        element = _over(convert, _structure(tensors))
        return Dataset(lambda: iter([element]), 1)

    @staticmethod
    def from_generator(generator, output_types=None, output_shapes=None, args=None, output_signature=None, name=None):
        if not callable(generator):
            raise TypeError("`generator` must be a Python callable.")
        signature = output_signature
        if signature is None and output_types is not None:
            shapes = output_shapes if output_shapes is not None else _over(lambda one: None, output_types)
            signature = _signature(output_types, shapes)

        def iterate():
            for made in generator(*(args or ())):
                yield _checked(made, signature) if signature is not None else _as_element(made)
        return Dataset(iterate, None, spec=signature)

    @staticmethod
    def range(*args, **kwargs):
        kind = as_dtype(kwargs.pop("output_type", _types.int64)).as_numpy_dtype
        numbers = range(*(int(one) for one in args))

        def take(places):
            if isinstance(places, (int, np.integer)):
                return of_host(np.asarray(numbers[int(places)], kind))
            if isinstance(places, slice):
                return of_host(np.arange(len(numbers), dtype=kind)[places] * kind(numbers.step) + kind(numbers.start))
            return of_host(numbers.start + np.asarray(places, kind) * kind(numbers.step))
        return Dataset(None, len(numbers), take, lambda: iter(range(len(numbers))), TensorSpec((), as_dtype(kind)))

    @staticmethod
    def list_files(file_pattern, shuffle=None, seed=None, name=None):
        import glob
        patterns = file_pattern if isinstance(file_pattern, (list, tuple)) else [file_pattern]
        patterns = [one.numpy().decode() if isinstance(one, Tensor) else str(one) for one in patterns]
        files = sorted({path for one in patterns for path in glob.glob(one)})
        if not files:
            raise InvalidArgumentError(f"No files matched pattern: {', '.join(patterns)}")
        made = Dataset.from_tensor_slices(np.array([one.encode() for one in files], object))
        return made if shuffle is False else made.shuffle(len(files), seed=seed)

    @staticmethod
    def zip(*args, datasets=None, name=None):
        given = datasets if datasets is not None else args[0] if len(args) == 1 and not isinstance(args[0], Dataset) else args
        parts = _leaves(given)
        sizes = [one._size for one in parts]
        known = [one for one in sizes if one is not None and one >= 0]
        size = None if any(one is None for one in sizes) else min(known) if known else -1

        def iterate():
            for elements in zip(*parts):
                leaves = iter(elements)
                yield _over(lambda one: next(leaves), given if not isinstance(given, list) else tuple(given))
        return Dataset(iterate, size)

    @staticmethod
    def sample_from_datasets(datasets, weights=None, seed=None, stop_on_empty_dataset=False, rerandomize_each_iteration=None):
        def iterate():
            sources = [iter(one) for one in datasets]
            share = np.ones(len(sources)) if weights is None else np.asarray(weights, np.float64)
            draw, is_open = generator(seed), np.ones(len(sources), bool)
            while is_open.any():
                chances = share * is_open
                chosen = int(draw.choice(len(sources), p=chances / chances.sum()))
                try:
                    yield next(sources[chosen])
                except StopIteration:
                    if stop_on_empty_dataset:
                        return
                    is_open[chosen] = False
        return Dataset(iterate)

    # Elements.

    def __iter__(self):
        if self._iterate is not None:
            return Iterator(self._iterate())
        return Iterator(self._take(i) for i in self._order())

    def __len__(self):
        if self._size is None:
            raise TypeError("The dataset length is unknown.")
        if self._size < 0:
            raise TypeError("The dataset is infinite.")
        return self._size

    def __bool__(self):
        return True

    def cardinality(self, name=None):
        return of_host(np.int64(UNKNOWN_CARDINALITY if self._size is None else self._size))

    def cardinality_or_none(self):
        return self._size

    @property
    def element_spec(self):
        if self._spec is None:
            element = next(iter(self))
            self._spec = _over(lambda one: DatasetSpec(one) if isinstance(one, Dataset) else TensorSpec(
                self._open_sizes(one), one.dtype), element)
        return self._spec

    def _open_sizes(self, one):
        sizes = list(one.shape)
        return [None, *sizes[1:]] if self._is_batched and sizes else sizes

    _is_batched = False

    def as_numpy_iterator(self):
        return (_over(lambda one: one.numpy(), element) for element in self)

    def get_single_element(self, name=None):
        return next(iter(self))

    def reduce(self, initial_state, reduce_func, name=None):
        state = _over(convert, initial_state)
        for element in self:
            state = _as_element(reduce_func(state, element))
        return state

    # Stages.

    def map(self, map_func, num_parallel_calls=None, deterministic=None, synchronous=None, use_unbounded_threadpool=False,
            name=None):
        def iterate():
            for element in self:
                yield _as_element(_called(map_func, element))
        made = Dataset(iterate, self._size)
        made._is_batched = self._is_batched
        return made

    def filter(self, predicate, name=None):
        return self._later(lambda: (one for one in self if bool(_called(predicate, one))), None)

    def _later(self, iterate, size):
        made = Dataset(iterate, size)
        made._is_batched, made._spec = self._is_batched, self._spec
        return made

    def _reordered(self, order, size, iterate):
        if self._order is not None:
            return Dataset(None, size, self._take, order, self._spec)
        return self._later(iterate, size)

    def shuffle(self, buffer_size, seed=None, reshuffle_each_iteration=True, name=None):
        buffer = int(buffer_size)
        if buffer < 1 and buffer != -1:
            raise InvalidArgumentError(f"buffer_size must be greater than zero, or UNKNOWN_CARDINALITY: {buffer}")
        start = State.seed if seed is None else (State.seed or 0) * 1000003 + int(seed)
        epochs = itertools.count()

        def draw():
            if start is None:
                return np.random.default_rng()
            return np.random.default_rng([abs(start), next(epochs) if reshuffle_each_iteration is not False else 0])

        def order():
            if self._size is not None and 0 <= self._size <= buffer and self._order is not None:
                numbers = np.fromiter(self._order(), np.int64, self._size)
                return iter(draw().permutation(numbers))
            return _shuffled(self._order(), buffer, draw())
        return self._reordered(order, self._size, lambda: _shuffled(iter(self), buffer, draw()))

    def batch(self, batch_size, drop_remainder=False, num_parallel_calls=None, deterministic=None, name=None):
        count = int(batch_size)
        if count < 1:
            raise InvalidArgumentError("Batch size must be greater than zero.")
        size = self._size
        if size is not None and size >= 0:
            size = size // count if drop_remainder else -(-size // count)

        def iterate():
            source = self._order() if self._order is not None else iter(self)
            while True:
                part = list(itertools.islice(source, count))
                if not part or (drop_remainder and len(part) < count):
                    return
                yield self._take(_places(part)) if self._order is not None else _stacked(part)
        made = Dataset(iterate, size)
        made._is_batched = True
        if self._spec is not None and all(isinstance(one, TensorSpec) for one in _leaves(self._spec)):
            made._spec = _over(lambda one: TensorSpec([count if drop_remainder else None, *(
                one.shape if one.shape.rank is not None else ())], one.dtype), self._spec)
        return made

    def padded_batch(self, batch_size, padded_shapes=None, padding_values=None, drop_remainder=False, name=None):
        count = int(batch_size)

        def iterate():
            source = iter(self)
            while True:
                part = list(itertools.islice(source, count))
                if not part or (drop_remainder and len(part) < count):
                    return
                yield _padded(part, padded_shapes, padding_values)
        size = self._size
        if size is not None and size >= 0:
            size = size // count if drop_remainder else -(-size // count)
        made = Dataset(iterate, size)
        made._is_batched = True
        return made

    def unbatch(self, name=None):
        def iterate():
            for element in self:
                for i in range(_leaves(element)[0].shape[0]):
                    yield _over(lambda one, i=i: one[i], element)
        return Dataset(iterate)

    def repeat(self, count=None, name=None):
        times = -1 if count is None else int(count)
        size = None if self._size is None else (-1 if times < 0 and self._size else self._size * max(times, 0)
                                                if self._size >= 0 else -1)

        def again(make):
            rounds = itertools.count() if times < 0 else range(times)
            for _ in rounds:
                is_empty = True
                for one in make():
                    is_empty = False
                    yield one
                if is_empty:
                    return
        return self._reordered(lambda: again(self._order), size, lambda: again(lambda: iter(self)))

    def take(self, count, name=None):
        count = int(count)
        if count < 0:
            return self
        size = None if self._size is None else count if self._size < 0 else min(count, self._size)
        return self._reordered(lambda: itertools.islice(self._order(), count), size,
                               lambda: itertools.islice(iter(self), count))

    def skip(self, count, name=None):
        count = int(count)
        size = self._size if self._size is None or self._size < 0 else 0 if count < 0 else max(0, self._size - count)
        first = None if count < 0 else count

        def past(source):
            return iter(()) if first is None else itertools.islice(source, first, None)
        return self._reordered(lambda: past(self._order()), size, lambda: past(iter(self)))

    def shard(self, num_shards, index, name=None):
        shards, index = int(num_shards), int(index)
        size = self._size if self._size is None or self._size < 0 else max(0, -(-(self._size - index) // shards))
        return self._reordered(lambda: itertools.islice(self._order(), index, None, shards), size,
                               lambda: itertools.islice(iter(self), index, None, shards))

    def take_while(self, predicate, name=None):
        return self._later(lambda: itertools.takewhile(lambda one: bool(_called(predicate, one)), iter(self)), None)

    def prefetch(self, buffer_size, name=None):
        return self

    def cache(self, filename="", name=None):
        kept = []
        state = {"is_full": False}

        def iterate():
            if state["is_full"]:
                yield from kept
                return
            made = []
            for element in self:
                made.append(element)
                yield element
            kept[:], state["is_full"] = made, True
        if self._order is not None:
            return self  # its source is in memory already
        return self._later(iterate, self._size)

    def concatenate(self, dataset, name=None):
        sizes = (self._size, dataset._size)
        size = None if None in sizes else -1 if -1 in sizes else sum(sizes)
        return self._later(lambda: itertools.chain(iter(self), iter(dataset)), size)

    def enumerate(self, start=0, name=None):
        return Dataset(lambda: ((of_host(np.int64(i)), one) for i, one in enumerate(self, int(start))), self._size)

    def flat_map(self, map_func, name=None):
        def iterate():
            for element in self:
                yield from _called(map_func, element)
        return Dataset(iterate)

    def interleave(self, map_func, cycle_length=None, block_length=1, num_parallel_calls=None, deterministic=None,
                   name=None):
        cycle = 2 if cycle_length in (None, AUTOTUNE) else int(cycle_length)

        def iterate():
            source, slots, is_over = iter(self), [None] * cycle, False
            while True:
                for i in range(cycle):
                    if slots[i] is None and not is_over:
                        element = next(source, None)
                        is_over = element is None
                        slots[i] = None if is_over else iter(_called(map_func, element))
                    for _ in range(int(block_length) if slots[i] is not None else 0):
                        element = next(slots[i], None)
                        if element is None:
                            slots[i] = None
                            break
                        yield element
                if is_over and all(one is None for one in slots):
                    return
        return Dataset(iterate)

    def window(self, size, shift=None, stride=1, drop_remainder=False, name=None):
        shift = size if shift is None else shift

        def iterate():
            elements, first = list(self), 0
            while first < len(elements):
                part = elements[first:first + (size - 1) * stride + 1:stride]
                if len(part) == size or not drop_remainder:
                    yield _over(lambda *ones: Dataset(lambda: iter(ones), len(ones)), *part)
                first += shift
        return Dataset(iterate)

    def scan(self, initial_state, scan_func, name=None):
        def iterate():
            state = _over(convert, initial_state)
            for element in self:
                state, made = scan_func(state, element)
                yield _as_element(made)
        return Dataset(iterate, self._size)

    def apply(self, transformation_func):
        return transformation_func(self)

    def with_options(self, options, name=None):
        return self

    def options(self):
        return Options()

    def ignore_errors(self, log_warning=False, name=None):
        def iterate():
            source = iter(self)
            while True:
                try:
                    yield next(source)
                except StopIteration:
                    return
                except Exception:  # what a stage failed on is left out, as its name says
                    if log_warning:
                        _engine.note("ignored", "a dataset's element failed and is left out")
        return Dataset(iterate)

    def __repr__(self):
        return f"<Dataset element_spec={self.element_spec}>"

    # As tf.compat.v1 has them.

    def make_one_shot_iterator(self):
        from ..compat.v1.data import make_one_shot_iterator
        return make_one_shot_iterator(self)

    def make_initializable_iterator(self, shared_name=None):
        from ..compat.v1.data import make_initializable_iterator
        return make_initializable_iterator(self)


class DatasetSpec:
    def __init__(self, dataset):
        self.dataset = dataset


class Iterator:
    """An iteration under way."""

    def __init__(self, source):
        self._source = iter(source)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._source)

    def get_next(self):
        try:
            return next(self._source)
        except StopIteration:
            raise OutOfRangeError(message="End of sequence") from None

    next = get_next

    def get_next_as_optional(self):
        try:
            return Optional(next(self._source))
        except StopIteration:
            return Optional(None)


class Optional:
    def __init__(self, value):
        self._value = value

    def has_value(self):
        return of_host(np.asarray(self._value is not None))

    def get_value(self):
        if self._value is None:
            raise InvalidArgumentError("Optional has no value.")
        return self._value


class Options:
    """tf.data.Options: taken and not needed."""

    def __init__(self):
        object.__setattr__(self, "kept", {})

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.kept.setdefault(name, Options())

    def __setattr__(self, name, value):
        self.kept[name] = value


def _places(numbers):
    """Neighbours as a slice, which copies nothing of an array; else an array of numbers."""
    first, count = int(numbers[0]), len(numbers)
    if int(numbers[-1]) - first == count - 1 and all(int(b) - int(a) == 1 for a, b in zip(numbers, numbers[1:])):
        return slice(first, first + count)
    return np.asarray(numbers, np.int64)


def _shuffled(source, buffer, draw):
    kept = list(itertools.islice(source, buffer if buffer > 0 else None))
    while kept:
        numbers = draw.random(4096)
        for number in numbers:
            i = int(number * len(kept))
            one = next(source, None)
            if one is None:
                yield kept[i]
                kept[i] = kept[-1]
                kept.pop()
                if not kept:
                    return
            else:
                yield kept[i]
                kept[i] = one


def _stacked(elements):
    return _over(lambda *ones: _one_stack(ones), *elements)


def _one_stack(ones):
    if isinstance(ones[0], Dataset):
        return ones[0]
    if any(one.shape != ones[0].shape for one in ones[1:]):
        bad = next(one for one in ones[1:] if one.shape != ones[0].shape)
        raise InvalidArgumentError(f"Cannot batch tensors with different shapes in component 0. First element had shape "
                                   f"{list(ones[0].shape)} and a later element had shape {list(bad.shape)}.")
    return stack(list(ones))


def _padded(elements, shapes, values):
    leaves = [_leaves(one) for one in elements]
    wanted = _leaves(tuple(shapes) if isinstance(shapes, tuple) and shapes and isinstance(
        shapes[0], (tuple, list, TensorShape, type(None))) and isinstance(elements[0], tuple) else (shapes,)) \
        if shapes is not None else None
    fillers = _leaves(values) if isinstance(values, (tuple, dict)) else [values] * len(leaves[0])
    made = []
    if shapes is not None and isinstance(elements[0], tuple):
        wanted = list(shapes)
    elif shapes is not None:
        wanted = [shapes]
    for i in range(len(leaves[0])):
        arrays = [one[i].host_array() for one in leaves]
        sizes = [max(array.shape[axis] for array in arrays) for axis in range(arrays[0].ndim)]
        if wanted is not None:
            given = list(TensorShape(wanted[i]))
            sizes = [found if size is None else size for found, size in zip(sizes, given)]
        filler = fillers[i] if i < len(fillers) and fillers[i] is not None else (b"" if arrays[0].dtype == object else 0)
        batch = np.full([len(arrays), *sizes], np.asarray(filler)[()] if arrays[0].dtype != object else filler,
                        arrays[0].dtype)
        for row, array in zip(batch, arrays):
            row[tuple(slice(0, size) for size in array.shape)] = array
        made.append(of_host(batch))
    parts = iter(made)
    return _over(lambda one: next(parts), elements[0])


def _signature(types, shapes):
    if isinstance(types, (tuple, list)):
        shapes = shapes if isinstance(shapes, (tuple, list)) and len(shapes) == len(types) else [shapes] * len(types)
        return tuple(_signature(one, shape) for one, shape in zip(types, shapes))
    if isinstance(types, dict):
        return {key: _signature(types[key], None if shapes is None else shapes[key]) for key in types}
    return TensorSpec(shapes, types)


def _checked(made, signature):
    if isinstance(signature, (tuple, list)):
        if not isinstance(made, (tuple, list)) or len(made) != len(signature):
            raise TypeError(f"`generator` yielded an element that did not match the expected structure. The expected "
                            f"structure was {signature}, but the yielded element was {made}.")
        return tuple(_checked(one, spec) for one, spec in zip(made, signature))
    if isinstance(signature, dict):
        return {key: _checked(made[key], spec) for key, spec in signature.items()}
    array = made.host_array() if isinstance(made, Tensor) else np.asarray(made)
    kind = signature.dtype
    if kind.name == "string":
        tensor = convert(made)
    elif array.dtype.kind in "fiub" and (array.dtype.kind != "f" or kind.is_floating):
        tensor = of_host(array.astype(kind.as_numpy_dtype, copy=False))
    else:
        raise TypeError(f"`generator` yielded an element that could not be converted to the expected type. The expected "
                        f"type was {kind.name}, but the yielded element was {made}.")
    if not signature.shape.is_compatible_with(tensor.shape):
        raise ValueError(f"`generator` yielded an element of shape {tensor.shape} where an element of shape "
                         f"{signature.shape} was expected.")
    return tensor


class TextLineDataset(Dataset):
    def __init__(self, filenames, compression_type=None, buffer_size=None, num_parallel_reads=None, name=None):
        names = [one.numpy().decode() if isinstance(one, Tensor) else str(one) for one in (
            filenames if isinstance(filenames, (list, tuple)) else [filenames])]

        def iterate():
            for path in names:
                with open(path, "rb") as file:
                    for line in file:
                        yield of_host(np.array(line.rstrip(b"\r\n"), object))
        super().__init__(iterate, None)


