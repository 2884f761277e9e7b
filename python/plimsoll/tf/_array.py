"""Operators that make and rearrange: zeros, ranges, shapes, slices, joins, gathers."""
import builtins

import numpy as np

from . import _engine, _types
from ._call import Mode, Symbolic, operator, record, source
from ._convert import constant, convert
from ._elementwise import _FEW, cast, on_host
from ._tensor import Tensor, of_core, of_first, of_host
from ._types import TensorShape, as_dtype
from .errors import InvalidArgumentError


def axes_of(axis, rank):
    """Axes as positive numbers, in order; None for all."""
    if axis is None:
        return None
    given = np.atleast_1d(np.asarray(axis)).tolist()
    for one in given:
        if not -rank <= one < rank and rank:
            raise InvalidArgumentError(f"Invalid reduction dimension {one} for input with {rank} dimension(s)")
    return tuple(sorted(one % rank for one in given)) if rank else ()


def ints(value):
    """Sizes or numbers that were given as a list, an array, a shape or a tensor."""
    if isinstance(value, TensorShape):
        return tuple(value)
    if isinstance(value, (int, np.integer)):
        return (int(value),)
    if isinstance(value, Tensor):
        return tuple(int(size) for size in np.atleast_1d(value.host_array()))
    return tuple(None if size is None else int(size) for size in value)


def _filled(sizes, number, dtype):
    count = int(np.prod(sizes, dtype=np.int64))
    if count <= _FEW or dtype.name not in ("float32", "int32", "int64"):
        return of_host(np.full(sizes, number, dtype.as_numpy_dtype), dtype if dtype.name == "bfloat16" else None)
    return of_core(_engine.full(sizes, number, _types.ENGINE[dtype.name]))


def _checked(shape):
    sizes = ints(shape)
    if any(size is None or size < 0 for size in sizes):
        raise InvalidArgumentError(f"Dimension must be >= 0; the shape is {sizes}")
    return sizes


@operator
def zeros(shape, dtype=_types.float32, name=None, layout=None):
    dtype = as_dtype(dtype)
    if dtype.name == "string":
        return of_host(np.full(_checked(shape), b"", object))
    return _filled(_checked(shape), 0, dtype)


@operator
def ones(shape, dtype=_types.float32, name=None, layout=None):
    return _filled(_checked(shape), 1, as_dtype(dtype))


@operator
def fill(dims, value, name=None, layout=None):
    value = convert(value)
    return _filled(_checked(dims), value.host_array()[()], value.dtype)


@operator
def zeros_like(input, dtype=None, name=None, layout=None):
    x = convert(input)
    return zeros(x.shape, x.dtype if dtype is None else dtype)


@operator
def ones_like(input, dtype=None, name=None, layout=None):
    x = convert(input)
    return ones(x.shape, x.dtype if dtype is None else dtype)


@operator
def eye(num_rows, num_columns=None, batch_shape=None, dtype=_types.float32, name=None):
    made = np.eye(int(num_rows), None if num_columns is None else int(num_columns),
                  dtype=as_dtype(dtype).as_numpy_dtype)
    if batch_shape is not None:
        made = np.broadcast_to(made, ints(batch_shape) + made.shape).copy()
    return of_host(made)


@operator
def range(start, limit=None, delta=1, dtype=None, name="range"):
    if limit is None:
        start, limit = 0, start
    numbers = [value.numpy() if isinstance(value, Tensor) else value for value in (start, limit, delta)]
    if dtype is None:
        kinds = [convert(value).dtype for value in (start, limit, delta)]
        dtype = next((kind for kind in (_types.float64, _types.float32, _types.int64) if kind in kinds), _types.int32)
    return of_host(np.arange(*numbers, dtype=as_dtype(dtype).as_numpy_dtype))


@operator
def linspace(start, stop, num, name=None, axis=0):
    start, stop = convert(start), convert(stop)
    kind = start.dtype if start.dtype.is_floating else _types.float64
    return of_host(np.linspace(start.host_array(), stop.host_array(), int(num), axis=axis, dtype=kind.as_numpy_dtype))


@operator
def identity(input, name=None):
    x = convert(input)
    return Tensor(x._core, x._host, x._first) if not x._is_first else of_first(x.first)


@operator
def stop_gradient(input, name=None):
    x = convert(input)
    return x if x.is_on_host else of_core(_engine.op("stop_gradient")(x.core))


@operator
def shape(input, out_type=_types.int32, name=None):
    return of_host(np.array(convert(input)._sizes, as_dtype(out_type).as_numpy_dtype))


def shape_n(input, out_type=_types.int32, name=None):
    return [shape(part, out_type) for part in input]


@operator
def size(input, out_type=_types.int32, name=None):
    return of_host(np.array(int(np.prod(convert(input)._sizes, dtype=np.int64)), as_dtype(out_type).as_numpy_dtype))


@operator
def rank(input, name=None):
    return of_host(np.array(convert(input).ndim, np.int32))


@operator
def reshape(tensor, shape, name=None):
    x = convert(tensor)
    sizes = list(ints(shape))
    count = int(np.prod(x._sizes, dtype=np.int64))
    if sizes.count(-1) + sizes.count(None) > 1:
        raise InvalidArgumentError(f"Only one input size may be -1, not both 0 and 1: {sizes}")
    sizes = [-1 if one is None else one for one in sizes]
    if -1 in sizes:
        rest = int(np.prod([one for one in sizes if one != -1], dtype=np.int64))
        sizes[sizes.index(-1)] = count // rest if rest else 0
    if int(np.prod(sizes, dtype=np.int64)) != count:
        raise InvalidArgumentError(f"Input to reshape is a tensor with {count} values, but the requested shape "
                                   f"requires a multiple of, or has, {int(np.prod(sizes))}: {list(ints(shape))}")
    if x.is_on_host:
        return of_host(x._host.reshape(sizes), x._label)
    if tuple(sizes) == tuple(x._sizes):
        return x
    return of_core(_engine.op("reshape")(x.core, tuple(sizes)))


@operator
def expand_dims(input, axis, name=None):
    x = convert(input)
    if x.is_on_host:
        return of_host(np.expand_dims(x._host, int(axis)), x._label)
    return of_core(_engine.op("expand_dims")(x.core, int(axis)))


@operator
def squeeze(input, axis=None, name=None):
    x = convert(input)
    sizes = x._sizes
    axes = [i for i, one in enumerate(sizes) if one == 1] if axis is None or axis == [] else axes_of(axis, x.ndim)
    for one in axes:
        if sizes[one] != 1:
            raise InvalidArgumentError(f"Can not squeeze dim[{one}], expected a dimension of 1, got {sizes[one]}")
    return reshape(x, [size for i, size in enumerate(sizes) if i not in axes])


@operator
def transpose(a, perm=None, conjugate=False, name="transpose"):
    x = convert(a)
    order = tuple(reversed(builtins.range(x.ndim))) if perm is None else tuple(p % x.ndim for p in ints(perm))
    if on_host(x):
        return of_host(np.transpose(x._host, order))
    if order == tuple(builtins.range(x.ndim)):
        return x
    return of_core(_engine.op("transpose")(x.core, order))


@operator
def broadcast_to(input, shape, name=None):
    x = convert(input)
    if on_host(x):
        return of_host(np.broadcast_to(x._host, ints(shape)).copy())
    return of_core(_engine.op("broadcast_to")(x.core, ints(shape)))


def broadcast_static_shape(shape_x, shape_y):
    return TensorShape(np.broadcast_shapes(tuple(TensorShape(shape_x)), tuple(TensorShape(shape_y))))


def broadcast_dynamic_shape(shape_x, shape_y):
    return of_host(np.array(np.broadcast_shapes(ints(shape_x), ints(shape_y)), np.int32))


@operator
def tile(input, multiples, name=None):
    x, times = convert(input), ints(multiples)
    if on_host(x):
        return of_host(np.tile(x._host, times))
    return of_core(_engine.op("tile")(x.core, times))


@operator
def repeat(input, repeats, axis=None, name=None):
    x = convert(input)
    if axis is None:
        x, axis = reshape(x, [-1]), 0
    times = np.asarray(repeats)
    if times.ndim and times.size > 1:
        return gather(x, np.repeat(np.arange(x._sizes[axis], dtype=np.int32), times), axis=axis)
    times = int(times.reshape(()))
    if on_host(x):
        return of_host(np.repeat(x._host, times, axis))
    return of_core(_engine.op("repeat")(x.core, times, axis=int(axis)))


def _alike(values):
    tensors = [convert(value) for value in values if isinstance(value, Tensor) or hasattr(value, "is_variable")]
    kind = tensors[0].dtype if tensors else None
    made = [convert(value, hint=kind) for value in values]
    for one in made:
        if one.dtype is not made[0].dtype:
            if {one.dtype.name, made[0].dtype.name} == {"float32", "float64"}:
                return [cast(part, _types.float32) for part in made]
            raise InvalidArgumentError(f"cannot compute Pack as input #1(zero-based) was expected to be a "
                                       f"{made[0].dtype.name} tensor but is a {one.dtype.name} tensor")
    return made


@operator
def stack(values, axis=0, name="stack"):
    made = _alike(list(values))
    if not made:
        return of_host(np.zeros((0,), np.float32))
    if all(one.is_on_host for one in made):
        try:
            return of_host(np.stack([one._host for one in made], axis))
        except ValueError:
            raise InvalidArgumentError("Shapes of all inputs must match: "
                                       + ", ".join(str(one.shape) for one in made)) from None
    return of_core(_engine.op("stack")([one.core for one in made], axis=int(axis)))


@operator
def unstack(value, num=None, axis=0, name="unstack"):
    x = convert(value)
    if x.is_on_host:
        return [of_host(part) for part in np.moveaxis(x._host, axis, 0)]
    return [of_core(part) for part in _engine.op("unstack")(x.core, axis=int(axis))]


@operator
def concat(values, axis, name="concat"):
    if isinstance(values, Tensor):
        values = [values]
    made, axis = _alike(list(values)), int(axis)
    if all(one.is_on_host for one in made):
        try:
            return of_host(np.concatenate([one._host for one in made], axis))
        except ValueError:
            raise InvalidArgumentError("ConcatOp : Dimensions of inputs should match: "
                                       + ", ".join(str(one.shape) for one in made)) from None
    made = [one for one in made if 0 not in one._sizes] or made
    if all(one._is_first for one in made) and axis % made[0].ndim == made[0].ndim - 1:
        return of_first(_engine.op("concat")([one.first for one in made], 1))
    return of_core(_engine.op("concat")([one.core for one in made], axis % made[0].ndim))


@operator
def split(value, num_or_size_splits, axis=0, num=None, name="split"):
    x, axis = convert(value), int(axis) % convert(value).ndim
    whole = x._sizes[axis]
    if isinstance(num_or_size_splits, (int, np.integer)):
        if whole % num_or_size_splits:
            raise InvalidArgumentError(f"Dimension size must be evenly divisible by {num_or_size_splits} but is {whole}")
        sizes = [whole // num_or_size_splits] * int(num_or_size_splits)
    else:
        sizes = list(ints(num_or_size_splits))
        if -1 in sizes:
            sizes[sizes.index(-1)] = whole - sum(one for one in sizes if one != -1)
    if x.is_on_host:
        return [of_host(part) for part in np.split(x._host, np.cumsum(sizes)[:-1], axis)]
    return [of_core(part) for part in _engine.op("split")(x.core, tuple(sizes), axis)]


@operator
def pad(tensor, paddings, mode="CONSTANT", constant_values=0, name=None):
    x = convert(tensor)
    sides = [tuple(int(n) for n in pair) for pair in np.asarray(paddings)]
    mode = mode.upper()
    if on_host(x):
        if mode == "CONSTANT":
            return of_host(np.pad(x._host, sides, constant_values=constant_values))
        return of_host(np.pad(x._host, sides, mode=mode.lower()))
    before, after = tuple(a for a, _ in sides), tuple(b for _, b in sides)
    if mode == "CONSTANT":
        return of_core(_engine.op("pad")(x.core, before, after, float(constant_values)))
    return of_core(_engine.op("pad_border")(x.core, before, after, mode.lower()))


@operator
def reverse(tensor, axis, name=None):
    x = convert(tensor)
    if on_host(x):
        return of_host(np.flip(x._host, ints(axis)))
    return of_core(_engine.op("flip")(x.core, axes_of(axis, x.ndim)))


@operator
def roll(input, shift, axis, name=None):
    x = convert(input)
    if on_host(x):
        return of_host(np.roll(x._host, ints(shift), ints(axis)))
    made = x.core
    for by, along in zip(ints(shift), ints(axis)):
        made = _engine.op("roll")(made, by, axis=along)
    return of_core(made)


@operator
def where(condition, x=None, y=None, name=None):
    condition = convert(condition)
    if x is None and y is None:
        return of_host(np.argwhere(condition.host_array()).astype(np.int64))
    from ._elementwise import pair
    x, y = pair(x, y, "SelectV2")
    if on_host(condition, x, y):
        return of_host(np.where(condition._host, x._host, y._host))
    return of_core(_engine.op("where")(condition.core, x.core, y.core))


@operator
def one_hot(indices, depth, on_value=None, off_value=None, axis=None, dtype=None, name=None):
    places = convert(indices)
    dtype = as_dtype(dtype) if dtype is not None else (
        convert(on_value).dtype if on_value is not None else _types.float32)
    axis = -1 if axis is None else int(axis)
    if places.is_on_host:
        array = places._host
        hot = array[..., None] == np.arange(int(depth), dtype=array.dtype)
        made = np.where(hot, 1 if on_value is None else on_value, 0 if off_value is None else off_value)
        return of_host(np.moveaxis(made.astype(dtype.as_numpy_dtype), -1, axis))
    hot = of_core(_engine.op("one_hot")(cast(places, _types.int32).core, int(depth), axis=axis))
    if on_value is not None or off_value is not None:
        on, off = (1.0 if on_value is None else on_value), (0.0 if off_value is None else off_value)
        hot = hot * (float(on) - float(off)) + float(off)
    return cast(hot, dtype)


@operator
def gather(params, indices, validate_indices=None, axis=None, batch_dims=0, name=None):
    x, places = convert(params), convert(indices)
    axis = int(batch_dims) if axis is None else int(axis)
    axis, shared = axis % max(x.ndim, 1), int(batch_dims)
    if x.is_on_host and places.is_on_host and shared == 0:
        _expect_inside(places._host, x._sizes[axis])
        return of_host(np.take(x._host, places._host, axis))
    if places.is_on_host:
        _expect_inside(places._host, x._sizes[axis])
        if places._host.dtype not in (np.int32, np.int64):
            places = of_host(places._host.astype(np.int32))
    return of_core(_engine.op("gather")(x.core, places.core, axis=axis, shared=shared))


def _expect_inside(places, count):
    if places.size and (places.min() < 0 or places.max() >= count):
        bad = places[(places < 0) | (places >= count)].ravel()[0]
        raise InvalidArgumentError(f"indices = {bad} is not in [0, {count})")


@operator
def gather_nd(params, indices, batch_dims=0, name=None, bad_indices_policy=""):
    x, places = convert(params), convert(indices)
    return of_core(_engine.op("gather_nd")(x.core, places.core, shared=int(batch_dims)))


@operator
def boolean_mask(tensor, mask, axis=None, name="boolean_mask"):
    x, chosen = convert(tensor), convert(mask).host_array()
    axis = 0 if axis is None else int(axis)
    if chosen.ndim > 1:
        sizes = x._sizes
        x = reshape(x, sizes[:axis] + (chosen.size,) + sizes[axis + chosen.ndim:])
        chosen = chosen.ravel()
    return _picked(x, np.flatnonzero(chosen), axis)


def _picked(x, places, axis):
    if not len(places):
        sizes = list(x._sizes)
        sizes[axis] = 0
        return of_host(np.zeros(sizes, x.dtype.as_numpy_dtype))
    return gather(x, places.astype(np.int32), axis=axis)


def _scatter(how):
    @operator
    def call(tensor, indices, updates, name=None):
        x, places, values = convert(tensor), convert(indices), convert(updates)
        return of_core(_engine.op("scatter_nd")(x.core, places.core, values.core, how=how))
    return call


tensor_scatter_nd_update = _scatter("set")
tensor_scatter_nd_add = _scatter("add")
tensor_scatter_nd_max = _scatter("max")
tensor_scatter_nd_min = _scatter("min")


def tensor_scatter_nd_sub(tensor, indices, updates, name=None):
    return tensor_scatter_nd_add(tensor, indices, -convert(updates))


def scatter_nd(indices, updates, shape, name=None):
    return tensor_scatter_nd_add(zeros(shape, convert(updates).dtype), indices, updates)


@operator
def sequence_mask(lengths, maxlen=None, dtype=_types.bool_, name=None):
    array = convert(lengths).host_array()
    most = int(maxlen) if maxlen is not None else int(array.max())
    return of_host((np.arange(most) < array[..., None]).astype(as_dtype(dtype).as_numpy_dtype))


@operator
def unique(x, out_idx=_types.int32, name=None):
    array = convert(x).host_array()
    values, first, places = np.unique(array, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return of_host(values[order]), of_host(back[places.ravel()].astype(as_dtype(out_idx).as_numpy_dtype))


def meshgrid(*args, **kwargs):
    indexing = kwargs.get("indexing", "xy")
    return [of_host(part) for part in np.meshgrid(*(convert(one).host_array() for one in args), indexing=indexing)]


def searchsorted(sorted_sequence, values, side="left", out_type=_types.int32, name=None):
    return of_host(np.searchsorted(convert(sorted_sequence).host_array(), convert(values).host_array(), side)
                   .astype(as_dtype(out_type).as_numpy_dtype))


