"""Operators that join elements along axes: sums, means, extremes, sorting, running sums, segments."""
import numpy as np

from . import _engine, _types
from ._array import axes_of, gather, reshape
from ._call import operator
from ._convert import convert
from ._elementwise import add, cast, divide, exp, log, multiply, on_host, sqrt, square, subtract
from ._tensor import of_core, of_host


def _reduction(name, on_array, core_name=None):
    @operator
    def call(input_tensor, axis=None, keepdims=False, name=None):
        x = convert(input_tensor)
        axes = axes_of(axis, x.ndim)
        if on_host(x) or 0 in x._sizes:
            with np.errstate(all="ignore"):
                made = on_array(x._host, axis=axes, keepdims=bool(keepdims))
            return of_host(np.asarray(made, np.bool_ if x.dtype.is_bool else x._host.dtype))
        if axes == ():
            return x
        if x.ndim == 0:
            return x
        if x._is_first and x.ndim == 4 and axes in ((1, 2), None):
            given = {} if axes is None else {"axes": (2, 3)}
            if axes is None or not keepdims:
                return of_core(_engine.op(chosen)(x.first, **given))
        given = {} if axes is None else {"axes": axes}
        return of_core(_engine.op(chosen)(x.core, keep=bool(keepdims), **given))
    chosen = core_name or name
    call.__name__ = call.__qualname__ = name
    return call


def _mean_of(array, axis, keepdims):
    return array.mean(axis=axis, keepdims=keepdims, dtype=np.float64 if array.dtype.kind == "f" else None)


def _logsumexp(array, axis, keepdims):
    most = array.max(axis=axis, keepdims=True)
    most = np.where(np.isfinite(most), most, 0)
    total = np.log(np.exp(array - most).sum(axis=axis, keepdims=True)) + most
    return total if keepdims else total.squeeze(axis=axis)


def _norm(array, axis, keepdims):
    return np.sqrt((array * array).sum(axis=axis, keepdims=keepdims))


reduce_sum = _reduction("reduce_sum", np.sum)
_reduce_mean = _reduction("reduce_mean", _mean_of)
reduce_max = _reduction("reduce_max", np.max)
reduce_min = _reduction("reduce_min", np.min)
reduce_prod = _reduction("reduce_prod", np.prod)
reduce_any = _reduction("reduce_any", np.any)
reduce_all = _reduction("reduce_all", np.all)
reduce_variance = _reduction("reduce_variance", np.var)
reduce_std = _reduction("reduce_std", np.std)
reduce_logsumexp = _reduction("reduce_logsumexp", _logsumexp)
reduce_euclidean_norm = _reduction("reduce_euclidean_norm", _norm, "norm")


@operator
def reduce_mean(input_tensor, axis=None, keepdims=False, name=None):
    x = convert(input_tensor)
    if x.dtype.is_integer and not on_host(x):
        # TensorFlow's mean of whole numbers is the whole part of their mean.
        total = reduce_sum(cast(x, _types.float32), axis, keepdims)
        counted = axes_of(axis, x.ndim)
        count = int(np.prod([x._sizes[a] for a in (range(x.ndim) if counted is None else counted)]))
        return cast(divide(total, float(count)), x.dtype)
    return _reduce_mean(x, axis, keepdims)


def moments(x, axes, shift=None, keepdims=False, name=None):
    return reduce_mean(x, axes, keepdims), reduce_variance(x, axes, keepdims)


def _index_of(name, on_array):
    @operator
    def call(input, axis=None, output_type=_types.int64, name=None):
        x = convert(input)
        axis = 0 if axis is None else int(axis)
        output = _types.as_dtype(output_type)
        if on_host(x):
            return of_host(np.asarray(on_array(x._host, axis=axis), output.as_numpy_dtype))
        return cast(of_core(_engine.op(chosen)(x.core, axis=axis)), output)
    chosen = name
    call.__name__ = call.__qualname__ = name
    return call


argmax = _index_of("argmax", np.argmax)
argmin = _index_of("argmin", np.argmin)


def _running(name, on_array):
    @operator
    def call(x, axis=0, exclusive=False, reverse=False, name=None):
        x = convert(x)
        if on_host(x) and not exclusive and not reverse:
            return of_host(np.asarray(on_array(x._host, axis=axis), x._host.dtype))
        return of_core(_engine.op(chosen)(x.core, axis=int(axis), exclusive=bool(exclusive), reverse=bool(reverse)))
    chosen = name
    call.__name__ = call.__qualname__ = name
    return call


cumsum = _running("cumsum", np.cumsum)
cumprod = _running("cumprod", np.cumprod)


def _direction(direction):
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"Argument `direction` should be one of 'ASCENDING' or 'DESCENDING'. Received: {direction!r}")
    return direction == "DESCENDING"


@operator
def sort(values, axis=-1, direction="ASCENDING", name=None):
    x, down = convert(values), _direction(direction)
    if on_host(x):
        ordered = np.sort(x._host, axis=axis)
        return of_host(np.flip(ordered, axis) if down else ordered)
    return of_core(_engine.op("sort")(x.core, axis=int(axis), descending=down))


@operator
def argsort(values, axis=-1, direction="ASCENDING", stable=False, name=None):
    x, down = convert(values), _direction(direction)
    if on_host(x):
        return of_host(np.argsort(-x._host if down else x._host, axis=axis, kind="stable").astype(np.int32))
    return cast(of_core(_engine.op("argsort")(x.core, axis=int(axis), descending=down)), _types.int32)


class TopK(tuple):
    values = property(lambda self: self[0])
    indices = property(lambda self: self[1])


@operator
def top_k(input, k=1, sorted=True, index_type=_types.int32, name=None):
    x = convert(input)
    values, places = _engine.op("top_k")(x.core, int(k))
    return TopK((of_core(values), cast(of_core(places), index_type)))


@operator
def in_top_k(targets, predictions, k, name=None):
    from ._elementwise import greater, less
    scores, targets = convert(predictions), cast(convert(targets), _types.int64)
    own = gather(scores, targets, batch_dims=1, axis=1)
    above = reduce_sum(cast(greater(scores, reshape(own, (-1, 1))), _types.int32), axis=1)
    return less(above, int(k))


def _segments(name):
    @operator
    def call(data, segment_ids, num_segments=None, name=None):
        numbers = convert(segment_ids)
        count = int(num_segments) if num_segments is not None else int(np.max(numbers.host_array())) + 1
        return of_core(_engine.op(chosen)(convert(data).core, numbers.core, count))
    chosen = name
    call.__name__ = call.__qualname__ = name
    return call


segment_sum = unsorted_segment_sum = _segments("segment_sum")
segment_mean = unsorted_segment_mean = _segments("segment_mean")
segment_max = unsorted_segment_max = _segments("segment_max")
segment_min = unsorted_segment_min = _segments("segment_min")


@operator
def bincount(arr, weights=None, minlength=None, maxlength=None, dtype=_types.int32, name=None, axis=None,
             binary_output=False):
    array = convert(arr).host_array()
    counts = np.bincount(array.ravel(), None if weights is None else convert(weights).host_array().ravel(),
                         int(minlength or 0))
    if maxlength is not None:
        counts = counts[:int(maxlength)]
    return of_host(counts.astype(_types.as_dtype(dtype).as_numpy_dtype if weights is None else np.float32))


@operator
def confusion_matrix(labels, predictions, num_classes=None, weights=None, dtype=_types.int32, name=None):
    a, b = convert(labels).host_array().ravel(), convert(predictions).host_array().ravel()
    count = int(num_classes) if num_classes is not None else int(max(a.max(), b.max())) + 1
    table = np.zeros((count, count), _types.as_dtype(dtype).as_numpy_dtype)
    np.add.at(table, (a.astype(np.int64), b.astype(np.int64)), 1 if weights is None else convert(weights).host_array())
    return of_host(table)


@operator
def count_nonzero(input, axis=None, keepdims=None, dtype=_types.int64, name=None):
    from ._elementwise import not_equal
    return cast(reduce_sum(cast(not_equal(convert(input), 0), _types.int32), axis, bool(keepdims)), dtype)


@operator
def histogram_fixed_width(values, value_range, nbins=100, dtype=_types.int32, name=None):
    low, high = (float(part) for part in np.asarray(value_range))
    array = np.clip(convert(values).host_array().ravel(), low, high)
    places = np.clip(np.floor((array - low) / (high - low) * nbins).astype(np.int64), 0, nbins - 1)
    return of_host(np.bincount(places, minlength=nbins).astype(_types.as_dtype(dtype).as_numpy_dtype))


@operator
def l2_normalize(x, axis=None, epsilon=1e-12, name=None):
    from ._elementwise import maximum, rsqrt
    x = convert(x)
    return multiply(x, rsqrt(maximum(reduce_sum(square(x), axis, True), epsilon)))


@operator
def normalize_moments(x, mean, variance, offset, scale, epsilon):
    from ._elementwise import rsqrt
    factor = rsqrt(add(variance, epsilon))
    if scale is not None:
        factor = multiply(factor, scale)
    made = multiply(subtract(x, mean), factor)
    return made if offset is None else add(made, offset)


