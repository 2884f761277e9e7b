"""The structure of elements, tuples and dicts of components, and what functions of Python give as elements."""

from __future__ import annotations

import warnings
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

from . import _plimsoll


class Slot:
    """Stands for a component in the structure of an element."""


LEAF = Slot()


def leaves(value: Any, into: list[Any], names: list[str], name: str) -> Any:
    """The structure of an element: tuples and dicts of leaves."""
    if isinstance(value, tuple) and not hasattr(value, "__array__"):
        inner = [f"{name}_{i}" if name else f"x{i}" for i in range(len(value))]
        if not name and len(value) == 1:
            inner = ["x"]
        elif not name and len(value) in (2, 3):
            inner = ["x", "y", "sample_weight"][: len(value)]
        return tuple(leaves(item, into, names, label) for item, label in zip(value, inner))
    if isinstance(value, Mapping):
        return {key: leaves(item, into, names, str(key)) for key, item in value.items()}
    into.append(value)
    names.append(name or "x")
    return LEAF


def pack(structure: Any, values: Iterator[Any]) -> Any:
    if isinstance(structure, tuple):
        return tuple(pack(one, values) for one in structure)
    if isinstance(structure, dict):
        return {key: pack(one, values) for key, one in structure.items()}
    return next(values)


def unique(names: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    made = []
    for name in names:
        number = seen.get(name, 0)
        seen[name] = number + 1
        made.append(name if number == 0 else f"{name}_{number}")
    return made


def arguments(structure: Any, values: Sequence[Any]) -> tuple[Any, ...]:
    """What a function of an element is called with: a tuple's parts, else the element."""
    packed = pack(structure, iter(values))
    return packed if isinstance(packed, tuple) else (packed,)


def spec_of(names: Sequence[str], values: Sequence[Any]) -> list[Any]:
    import numpy

    spec = []
    for name, value in zip(names, values):
        array = numpy.asarray(value)
        kind = {"float64": "float32", "int16": "int32", "uint16": "int32", "uint32": "int64", "uint64": "int64"}
        spec.append((name, kind.get(str(array.dtype), str(array.dtype)), array.shape, ()))
    return spec


def remake_tensor(numbers: Any, dtype: str) -> _plimsoll.Tensor:
    """A tensor that was pickled."""
    return _plimsoll.tensor(numbers, dtype)


def known(function: str, options: dict[str, Any], names: list[str]) -> dict[str, Any]:
    for name in options:
        if name not in names:
            raise TypeError(f"{function}: there is no option '{name}'; there are {', '.join(names)}")
    return options


def pair(core: _plimsoll.Dataset) -> Any:
    return (LEAF, LEAF) if [one[0] for one in core.element] == ["x", "y"] else None


def as_array(value: Any) -> Any:
    import numpy

    return numpy.asarray(value)


def plain(value: Any) -> Any:
    """What has a buffer or __dlpack__ as it is; columns of a frame as their arrays."""
    if hasattr(value, "to_numpy"):
        return value.to_numpy()
    if isinstance(value, list):
        return as_array(value)
    return value


def factory_of(generator: Any) -> Callable[[], Iterable[Any]]:
    if callable(generator):
        return generator  # type: ignore[no-any-return]
    if iter(generator) is not generator:
        return lambda: generator  # a list and the like: begins again each time
    used = False

    def once() -> Iterable[Any]:
        nonlocal used
        if used:
            warnings.warn(
                "from_generator: an iterator gives its elements once, and a second epoch is empty; give the function that "
                "makes it, to begin again",
                stacklevel=2,
            )
            return iter(())
        used = True
        return generator  # type: ignore[no-any-return]

    return once


def peek(generator: Any, factory: Callable[[], Iterable[Any]]) -> tuple[Any, Callable[[], Iterable[Any]]]:
    """The first element, and a factory that still gives it."""
    first_of = iter(factory())
    try:
        first = next(first_of)
    except StopIteration:
        raise ValueError("from_generator: there is no first element to see types of; say output_signature") from None
    if callable(generator) or iter(generator) is not generator:
        return first, factory
    kept: list[Any] = [first]

    def again() -> Iterator[Any]:
        if kept:
            yield kept.pop()
            yield from first_of
        else:
            yield from factory()

    return first, again


def leaves_of_signature(value: Any, into: list[Any], names: list[str], name: str) -> Any:
    """As _leaves, where (dtype, shape) and what has dtype and shape are leaves."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        into.append((value.dtype, tuple(value.shape)))
        names.append(name or "x")
        return LEAF
    if isinstance(value, tuple) and 2 <= len(value) <= 3 and isinstance(value[1], (tuple, list)) and not isinstance(value[0], (tuple, dict)):
        if isinstance(value[0], (str, _plimsoll.DType, type)):
            into.append(tuple(value))
            names.append(name or "x")
            return LEAF
    if isinstance(value, tuple):
        inner = ["x", "y", "sample_weight"] if not name and len(value) in (2, 3) else [f"x{i}" for i in range(len(value))]
        return tuple(leaves_of_signature(item, into, names, label) for item, label in zip(value, inner))
    if isinstance(value, Mapping):
        return {key: leaves_of_signature(item, into, names, str(key)) for key, item in value.items()}
    raise TypeError("from_generator: output_signature is made of (dtype, shape)")


