"""The operators of Python on tensors: + - * / @ and so on, comparison, and slices as NumPy writes them."""
import numpy as np

from . import _array, _elementwise, _engine, _linear
from ._call import operator
from ._convert import convert
from ._tensor import Tensor, of_core, of_host
from .errors import InvalidArgumentError


def _is_mask(key):
    return (isinstance(key, (Tensor, np.ndarray)) or hasattr(key, "is_variable")) and key.dtype == np.bool_


@operator
def getitem(x, key):
    """x[key] for numbers, slices, `...`, tf.newaxis, scalar tensors, and one boolean mask."""
    x = convert(x)
    if _is_mask(key):
        return _array.boolean_mask(x, key)
    parts = list(key) if isinstance(key, tuple) else [key]
    parts = [_plain(part) for part in parts]
    if x.is_on_host:
        try:
            return of_host(np.asarray(x._host[tuple(parts)], x._host.dtype), x._label)
        except IndexError as error:
            raise InvalidArgumentError(f"slice index out of bounds: {error}") from None
    given = sum(1 for part in parts if part is not None and part is not Ellipsis)
    if given > x.ndim:
        raise IndexError(f"Too many indices: {given} for a tensor of {x.ndim} dimensions")
    if not any(part is Ellipsis for part in parts):
        parts.append(Ellipsis)
    at = next(i for i, part in enumerate(parts) if part is Ellipsis)
    parts[at:at + 1] = [slice(None)] * (x.ndim - given)
    return _sliced(x, parts)


def _plain(part):
    if isinstance(part, slice):
        return slice(*(None if one is None else int(one) for one in (part.start, part.stop, part.step)))
    if part is None or part is Ellipsis:
        return part
    if isinstance(part, (list, np.ndarray)) and np.ndim(part):
        raise TypeError("Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 "
                        f"tensors are valid indices, got {part!r}; use tf.gather")
    if isinstance(part, Tensor) and part.ndim:
        raise TypeError(f"Only scalar tensors are valid indices, got {part!r}; use tf.gather or tf.boolean_mask")
    return int(part)


def _sliced(x, parts):
    core, sizes, kept, axis = x.core, x._sizes, [], 0
    cut, flip = _engine.op("slice"), _engine.op("flip")
    for part in parts:
        if part is None:
            kept.append(1)
            continue
        size = sizes[axis]
        if isinstance(part, int):
            if not -size <= part < size:
                raise InvalidArgumentError(f"slice index {part} of dimension {axis} out of bounds.")
            core = cut(core, axis, part % size, 1)
        else:
            first, stop, step = part.indices(size)
            count = len(range(first, stop, step))
            kept.append(count)
            if count == 0:
                rest = [one for one in _sizes_after(parts, sizes)]
                return of_host(np.zeros(rest, x.dtype.as_numpy_dtype))
            if step < 0:
                core = flip(cut(core, axis, first + (count - 1) * step, count, -step), (axis,))
            elif count != size:
                core = cut(core, axis, first, count, step)
        axis += 1
    if tuple(kept) != _engine.shape(core):
        core = _engine.op("reshape")(core, tuple(kept))
    return of_core(core)


def _sizes_after(parts, sizes):
    axis = 0
    for part in parts:
        if part is None:
            yield 1
            continue
        if isinstance(part, slice):
            yield len(range(*part.indices(sizes[axis])))
        axis += 1


def _reversed(function):
    return lambda self, other: function(other, self)


def _compared(function, otherwise):
    def call(self, other):
        if other is None:
            return otherwise
        try:
            return function(self, other)
        except (ValueError, TypeError, InvalidArgumentError):
            if isinstance(other, (Tensor, np.ndarray, list, tuple)):
                raise
            return otherwise
    return call


def _logical(on_bools, name):
    def call(self, other):
        x = convert(self)
        if x.dtype.is_bool:
            return on_bools(x, other)
        raise TypeError(f"`x {name} y` of integers is not known here; use tf.cast to bool")
    return call


def _rounded(self, digits=None):
    return _elementwise.round(self)


def _matmul(a, b):
    return _linear.matmul(a, b)


METHODS = {
    "__add__": _elementwise.add, "__radd__": _reversed(_elementwise.add),
    "__sub__": _elementwise.subtract, "__rsub__": _reversed(_elementwise.subtract),
    "__mul__": _elementwise.multiply, "__rmul__": _reversed(_elementwise.multiply),
    "__truediv__": _elementwise.divide, "__rtruediv__": _reversed(_elementwise.divide),
    "__floordiv__": _elementwise.floordiv, "__rfloordiv__": _reversed(_elementwise.floordiv),
    "__mod__": _elementwise.floormod, "__rmod__": _reversed(_elementwise.floormod),
    "__pow__": _elementwise.pow, "__rpow__": _reversed(_elementwise.pow),
    "__matmul__": _matmul, "__rmatmul__": _reversed(_matmul),
    "__neg__": _elementwise.negative, "__abs__": _elementwise.abs, "__round__": _rounded,
    "__lt__": _elementwise.less, "__le__": _elementwise.less_equal,
    "__gt__": _elementwise.greater, "__ge__": _elementwise.greater_equal,
    "__eq__": _compared(_elementwise.equal, False), "__ne__": _compared(_elementwise.not_equal, True),
    "__and__": _logical(_elementwise.logical_and, "&"), "__or__": _logical(_elementwise.logical_or, "|"),
    "__xor__": _logical(_elementwise.logical_xor, "^"), "__invert__": _elementwise.logical_not,
    "__getitem__": getitem,
}


def _as_method(function):
    def method(*args):
        return function(*args)
    return method


def attach(kind):
    """Gives a class these operators."""
    for name, function in METHODS.items():
        setattr(kind, name, _as_method(function))


attach(Tensor)
