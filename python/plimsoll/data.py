"""Input data as in tf.data: a source and stages after it, lazily, in bounded memory under the line."""

from __future__ import annotations

import os
import warnings
from typing import Any, Callable, Iterable, Iterator

from . import _plimsoll
from ._plimsoll import AUTOTUNE, Line, Tensor
from .structure import (
    LEAF,
    arguments,
    as_array,
    factory_of,
    known,
    leaves,
    leaves_of_signature,
    pack,
    pair,
    peek,
    plain,
    spec_of,
    unique,
)

INFINITE = -1
UNKNOWN = -2


class ElementSpec(tuple[str, _plimsoll.DType, tuple[Any, ...]]):
    """A component of an element: name, dtype, shape with None where it differs between elements."""

    @property
    def name(self) -> str:
        return self[0]

    @property
    def dtype(self) -> _plimsoll.DType:
        return self[1]

    @property
    def shape(self) -> tuple[Any, ...]:
        return self[2]


class Iteration:
    """A dataset under way, for one consumer. It can go on elsewhere from its state."""

    def __init__(self, dataset: Dataset, line: Line) -> None:
        self._dataset = dataset
        self._core = _plimsoll.start(dataset._core, line)

    def __iter__(self) -> Iteration:
        return self

    def __next__(self) -> Any:
        values = self._core.next(_plimsoll.current_eager() is not None)
        if values is None:
            raise StopIteration
        return pack(self._dataset._structure, iter(values))

    @property
    def state(self) -> tuple[int, int, int]:
        """Where it stands: the dataset, the epoch, elements of this epoch that were handed out."""
        return self._core.state

    def seek(self, state: tuple[int, int, int]) -> None:
        """Goes on from such a state of the same dataset."""
        self._core.seek(*state)

    def start_epoch(self, epoch: int) -> None:
        """Begins that epoch."""
        self._core.start_epoch(epoch)

    @property
    def stages(self) -> list[dict[str, Any]]:
        """What each stage has done, from the source on."""
        return list(self._core.stages)


class Dataset:
    """A lazy description of input data. Each call returns another dataset; stages mean what they mean in tf.data.

    Iterated in the with statement of an Eager it gives tensors, elsewhere NumPy arrays.
    """

    def __init__(self, core: _plimsoll.Dataset, structure: Any = None) -> None:
        self._core = core
        if structure is None:
            count = len(core.element)
            structure = LEAF if count == 1 else {one[0]: LEAF for one in core.element}
        self._structure = structure

    # Sources.

    @staticmethod
    def from_tensor_slices(tensors: Any) -> Dataset:
        """Arrays, read where they lie: each row is an element. A tuple, a dict, a pandas frame, or one array.

        Arrays are not copied, nor float64, which becomes float32 element by element; so they must not change meanwhile.
        """
        if hasattr(tensors, "to_dict") and hasattr(tensors, "columns"):
            tensors = {str(column): tensors[column].to_numpy() for column in tensors.columns}
        if isinstance(tensors, list):
            tensors = _plimsoll.tensor(tensors) if _plimsoll.current_eager() is not None else as_array(tensors)
        values: list[Any] = []
        names: list[str] = []
        structure = leaves(tensors, values, names, "")
        values = [value.numpy() if isinstance(value, Tensor) else plain(value) for value in values]
        return Dataset(_plimsoll.Dataset.slices(unique(names), values), structure)

    from_arrays = from_tensor_slices

    @staticmethod
    def from_tensors(tensors: Any) -> Dataset:
        """One element: all of these."""
        values: list[Any] = []
        names: list[str] = []
        structure = leaves(tensors, values, names, "")
        return Dataset(_plimsoll.Dataset.slices(unique(names), [as_array(value)[None] for value in values]), structure)

    @staticmethod
    def range(*bounds: int) -> Dataset:
        """Whole numbers as range() gives them."""
        start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
        return Dataset(_plimsoll.Dataset.range(start, stop, step), LEAF)

    @staticmethod
    def from_generator(
        generator: Callable[[], Iterable[Any]] | Iterable[Any],
        output_signature: Any = None,
    ) -> Dataset:
        """Elements that a Python function yields; the function is called anew for each epoch.

        output_signature: the dtype and shape of each component, as a structure of (dtype, shape) or (dtype, shape, most)
        with None for sizes that differ; not given: the function is called once to see its first element. The function runs
        under the interpreter's lock: other Python code waits meanwhile. An iterator that can't begin again gives elements
        in the first epoch alone, with a warning.
        """
        factory = factory_of(generator)
        names: list[str] = []
        values: list[Any] = []
        if output_signature is None:
            first = peek(generator, factory)
            structure = leaves(first[0], values, names, "")
            factory = first[1]
            spec = spec_of(unique(names), values)
        else:
            structure = leaves_of_signature(output_signature, values, names, "")
            spec = [(name, *(one if len(one) == 3 else (*one, ()))) for name, one in zip(unique(names), values)]

        def flat() -> Iterator[list[Any]]:
            for element in factory():
                parts: list[Any] = []
                leaves(element, parts, [], "")
                yield parts

        return Dataset(_plimsoll.Dataset.generator(spec, flat), structure)

    @staticmethod
    def from_files(*paths: str | os.PathLike[str], scratch: str = "", **named: str | os.PathLike[str]) -> Dataset:
        """idx and npy files, also as .gz, of equal length: from_files("x.npy", "y.npy"), or by name."""
        pairs = [(name, os.fspath(path)) for name, path in zip(("x", "y", "z"), paths)]
        pairs += [(name, os.fspath(path)) for name, path in named.items()]
        structure: Any = LEAF if len(pairs) == 1 and not named else None
        if len(pairs) == 2 and not named:
            structure = (LEAF, LEAF)
        return Dataset(_plimsoll.Dataset.files(pairs, scratch), structure)

    @staticmethod
    def from_npz(path: str | os.PathLike[str]) -> Dataset:
        """All arrays of an archive, under their names."""
        return Dataset(_plimsoll.Dataset.npz(os.fspath(path)))

    @staticmethod
    def from_csv(path: str | os.PathLike[str], **options: Any) -> Dataset:
        """Rows of a table.

        Options: separator, quote, has_header, columns (names, or (name, "float" | "integer" | "category", field)), label,
        label_type, class_names, missing, scratch, index_bytes, longest_row, category_bytes, threads.
        """
        core = _plimsoll.Dataset.csv(os.fspath(path), known("from_csv", options, _CSV))
        return Dataset(core, pair(core))

    @staticmethod
    def from_tfrecord(paths: Any, features: Any = None, threads: int = AUTOTUNE) -> Dataset:
        """tf.Example records. features: dicts with name, dtype, shape, default, is_label, image; None: the first record's."""
        all_paths = [os.fspath(paths)] if isinstance(paths, (str, os.PathLike)) else [os.fspath(one) for one in paths]
        return Dataset(_plimsoll.Dataset.tfrecord(all_paths, features, threads))

    @staticmethod
    def from_images(path: str | os.PathLike[str], **options: Any) -> Dataset:
        """JPEG and PNG images: a folder with a sub-folder for each class, or a file with a path and a label on each line.

        Options: image_size, channels, resize, central_crop, dtype, channels_first, scale, mean, stddev, class_names,
        shrinks_in_decoder, image_bytes, most_pixels, threads.
        """
        core = _plimsoll.Dataset.images(os.fspath(path), not os.path.isdir(path), known("from_images", options, _IMAGES))
        return Dataset(core, pair(core))

    # Stages.

    def _next(self, core: _plimsoll.Dataset) -> Dataset:
        return Dataset(core, self._structure)

    def map(
        self,
        function: Callable[..., Any],
        num_parallel_calls: int = 1,
        *,
        traced: bool | None = None,
        output_signature: Any = None,
    ) -> Dataset:
        """Each element as the function returns it.

        A function written with operators is traced once and planned (traced=True). Any other Python function is called for
        each element with NumPy arrays, under the interpreter's lock (traced=False): that costs its own time and two copies
        of the element, and other Python code waits. None: traced where that works, which a warning tells where it does not.
        """
        if traced is not False:
            try:
                return self._map_traced(function, num_parallel_calls)
            except Exception as error:
                if traced:
                    raise
                reason = f"{type(error).__name__}: {error}".splitlines()[0]
                warnings.warn(
                    f"map: {getattr(function, '__name__', 'the function')} can't be traced ({reason}); it is called in Python "
                    "for each element. Say traced=False to do without this warning.",
                    stacklevel=2,
                )
        return self._map_python(function, num_parallel_calls, output_signature)

    def _map_traced(self, function: Callable[..., Any], threads: int) -> Dataset:
        result: list[Any] = []

        def flat(tensors: list[Tensor]) -> tuple[list[Tensor], list[str]]:
            values: list[Any] = []
            names: list[str] = []
            made = function(*arguments(self._structure, tensors))
            made = tuple(made) if isinstance(made, list) else made
            result[:] = [leaves(made, values, names, "")]
            for value in values:
                if not isinstance(value, Tensor):
                    raise TypeError(f"the function gives {type(value).__name__}, not tensors")
            return values, unique(names)

        core = self._core.map_traced(flat, [], threads)
        return Dataset(core, result[0])

    def _map_python(self, function: Callable[..., Any], threads: int, signature: Any) -> Dataset:
        names: list[str] = []
        values: list[Any] = []
        if signature is None:
            first = next(iter(self._plain()), None)
            if first is None:
                raise ValueError("map: the dataset is empty, so what the function gives is not known; say output_signature")
            made = function(*arguments(self._structure, first))
            structure = leaves(made, values, names, "")
            spec = spec_of(unique(names), values)
        else:
            structure = leaves_of_signature(signature, values, names, "")
            spec = [(name, *(one if len(one) == 3 else (*one, ()))) for name, one in zip(unique(names), values)]

        def flat(arrays: list[Any]) -> list[Any]:
            parts: list[Any] = []
            leaves(function(*arguments(self._structure, arrays)), parts, [], "")
            return parts

        return Dataset(self._core.map_python(spec, flat, threads), structure)

    def filter(self, predicate: Callable[..., Any]) -> Dataset:
        """Elements for which a Python function says True; it is called under the interpreter's lock."""
        return self._next(self._core.filter(lambda arrays: bool(predicate(*arguments(self._structure, arrays)))))

    def shuffle(
        self,
        buffer_size: int | None = None,
        seed: int = 0,
        reshuffle_each_iteration: bool = True,
        *,
        buffer_bytes: int | str = 0,
    ) -> Dataset:
        """Elements in a random order, another one in each epoch.

        buffer_size: of the window from which elements are drawn. None: all elements at once, a perfect shuffle in constant
        memory, for sources with random access. A window over random access holds numbers of elements only. The same seed
        gives the same order. buffer_bytes: instead, as many elements as fit into so many bytes.
        """
        size = _plimsoll.parse_bytes(buffer_bytes) if isinstance(buffer_bytes, str) else buffer_bytes
        return self._next(self._core.shuffle(buffer_size or 0, size, seed or 0, reshuffle_each_iteration))

    def batch(self, batch_size: int, drop_remainder: bool = False) -> Dataset:
        """So many elements as one, along a new first dimension."""
        return self._next(self._core.batch(batch_size, drop_remainder))

    def padded_batch(
        self, batch_size: int, padded_shapes: Any = None, padding_values: Any = None, drop_remainder: bool = False
    ) -> Dataset:
        """Elements of different shapes, padded to one. A shape for each component, with None for the largest of a batch."""
        return self._next(self._core.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder))

    def unbatch(self) -> Dataset:
        """Each row of a batch as an element."""
        return self._next(self._core.unbatch())

    def window(self, size: int, shift: int = 0, stride: int = 1, drop_remainder: bool = False) -> Dataset:
        """Windows as batches; shift 0: the size of a window."""
        return self._next(self._core.window(size, shift, stride, drop_remainder))

    def repeat(self, count: int | None = None) -> Dataset:
        """All elements so many times; None: for ever."""
        return self._next(self._core.repeat(INFINITE if count is None else count))

    def take(self, count: int) -> Dataset:
        """The first ones."""
        return self._next(self._core.take(count))

    def skip(self, count: int) -> Dataset:
        """All but the first ones."""
        return self._next(self._core.skip(count))

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Each num_shards-th element, from index on."""
        return self._next(self._core.shard(num_shards, index))

    def cache(self, filename: str = "") -> Dataset:
        """What passed once is kept: in memory, or in a file that later runs read again."""
        return self._next(self._core.cache(filename))

    def prefetch(self, buffer_size: int = AUTOTUNE) -> Dataset:
        """Fills so many elements ahead, on a thread of its own."""
        return self._next(self._core.prefetch(buffer_size))

    def enumerate(self, start: int = 0) -> Dataset:
        """(number, element)."""
        return Dataset(self._core.enumerate(start), (LEAF, self._structure))

    def concatenate(self, other: Dataset) -> Dataset:
        """Those of another dataset after these."""
        return self._next(self._core.concatenate(other._core))

    @staticmethod
    def zip(*datasets: Any) -> Dataset:
        """Elements side by side, as long as the shortest."""
        given = datasets[0] if len(datasets) == 1 and isinstance(datasets[0], (tuple, list)) else datasets
        return Dataset(_plimsoll.Dataset.zip([one._core for one in given]), tuple(one._structure for one in given))

    def interleave(
        self, map_func: Callable[..., Dataset], cycle_length: int = 1, block_length: int = 1, num_parallel_calls: int = 1
    ) -> Dataset:
        """Elements of the datasets that the function makes of these elements, in turns."""
        made: list[Dataset] = []

        def flat(arrays: list[Any]) -> _plimsoll.Dataset:
            one = map_func(*arguments(self._structure, arrays))
            made[:] = [one]
            return one._core

        core = self._core.interleave(flat, cycle_length, block_length, num_parallel_calls)
        return Dataset(core, made[0]._structure if made else None)

    def flat_map(self, map_func: Callable[..., Dataset]) -> Dataset:
        """Elements of the datasets that the function makes of these elements, one after another."""
        return self.interleave(map_func)

    def augment(self, **options: Any) -> Dataset:
        """Images at random cropped, mirrored, brighter and with more contrast.

        Options: component ("x"), channels_first, padding, crop, flips, brightness, contrast, seed, threads.
        """
        return self._next(self._core.augment(known("augment", options, _AUGMENT)))

    def resize(self, size: Any, **options: Any) -> Dataset:
        """Images in another size. Options: component ("x"), channels_first, method ("bilinear", "area"), threads."""
        return self._next(self._core.resize(known("resize", {"size": size, **options}, _RESIZE)))

    def skip_corrupt(self, most: int) -> Dataset:
        """Leaves out elements that are damaged: at most so many an epoch, then it fails too."""
        return self._next(self._core.skip_corrupt(most))

    def apply(self, transformation: Callable[[Dataset], Dataset]) -> Dataset:
        """transformation(self)."""
        return transformation(self)

    # Facts.

    @property
    def element_spec(self) -> list[ElementSpec]:
        """The components of an element."""
        return [ElementSpec(one[:3]) for one in self._core.element]

    def cardinality(self) -> int:
        """Elements of an epoch, INFINITE or UNKNOWN."""
        return self._core.size

    def __len__(self) -> int:
        size = self._core.size
        if size < 0:
            raise TypeError("the dataset has no end" if size == INFINITE else "how many elements there are is not known")
        return size

    def __bool__(self) -> bool:
        return True

    @property
    def class_names(self) -> list[str]:
        """Names of the classes by the number of the label, where the source has them."""
        return list(self._core.class_names)

    @property
    def is_random_access(self) -> bool:
        """Whether elements can be read in any order."""
        return self._core.is_random_access

    @property
    def bytes(self) -> int:
        """What an iteration takes at least, known before anything is read."""
        return self._core.bytes

    @property
    def stages(self) -> list[dict[str, Any]]:
        """The stages from the source on, with bytes and threads."""
        return list(self._core.stages)

    def __repr__(self) -> str:
        components = ", ".join(f"{one[0]} {one[1]}{list(one[2])}" for one in self._core.element)
        return f"<plimsoll.Dataset {self._core}: {components}>"

    # Iterating.

    def on(self, line: Line) -> Iteration:
        """An iteration whose memory comes from that line."""
        return Iteration(self, line)

    def __iter__(self) -> Iteration:
        eager = _plimsoll.current_eager()
        return Iteration(self, Line(covers_process=False) if eager is None else eager.line)

    def as_numpy_iterator(self) -> Iterator[Any]:
        """Elements as NumPy arrays."""
        for values in self._plain():
            yield pack(self._structure, iter(values))

    def _plain(self) -> Iterator[list[Any]]:
        core = _plimsoll.start(self._core, Line(covers_process=False))
        while (values := core.next(False)) is not None:
            yield values

    # For models.

    @property
    def _weight_name(self) -> str:
        """The component with a weight for each sample: the third of three."""
        if isinstance(self._structure, tuple) and len(self._structure) == 3:
            return str(self._core.element[-1][0])
        return ""

    def _inputs_like(self) -> Any:
        """Arrays as the inputs of a model would be."""
        import numpy

        made = []
        for name, dtype, shape, most in self._core.element:
            sizes = [most[i] if size is None and most else size or 1 for i, size in enumerate(shape)]
            made.append(numpy.empty(sizes, "float32" if str(dtype) == "bfloat16" else str(dtype)))
        packed = pack(self._structure, iter(made))
        return packed[0] if isinstance(packed, tuple) else packed


_CSV = (
    "separator quote has_header columns label label_type class_names missing scratch index_bytes longest_row "
    "category_bytes threads"
).split()
_IMAGES = (
    "image_size channels resize central_crop dtype channels_first scale mean stddev class_names shrinks_in_decoder "
    "image_bytes most_pixels threads"
).split()
_AUGMENT = "component channels_first padding crop flips brightness contrast seed threads".split()
_RESIZE = "size component channels_first method threads".split()


def dataset_of(x: Any, y: Any = None, *more: Any) -> Dataset:
    """A dataset as it is, or one of arrays."""
    if isinstance(x, Dataset):
        return x
    if y is None:
        return Dataset.from_tensor_slices(x)
    return Dataset.from_tensor_slices((x, y, *more))
