"""tf.nn: activations, convolutions, pooling, normalisation, and losses of single samples.

Images have their channels last here and first in the engine; a Tensor keeps the engine's form while image operators
follow one another.
"""
import math

import numpy as np

from . import _engine, _types
from ._array import expand_dims, reshape, squeeze
from ._call import operator
from ._convert import convert
from ._elementwise import (_array_math, add, cast, exp, log, log_sigmoid, maximum, multiply, negative, on_host, sigmoid,
                           softplus, square, subtract, unary)
from ._reduce import normalize_moments, reduce_sum
from ._tensor import of_core, of_first, of_host
from .errors import InvalidArgumentError


def _activation(name, on_array, *numbers):
    @operator
    def call(features, name=None):
        return unary(chosen, features, _array_math(on_array), *numbers)
    chosen = name
    call.__name__ = call.__qualname__ = name
    return call


relu = _activation("relu", lambda a: np.maximum(a, 0))
relu6 = _activation("relu6", lambda a: np.clip(a, 0, 6))
elu = _activation("elu", lambda a: np.where(a > 0, a, np.expm1(np.minimum(a, 0))), 1.0)
selu = _activation("selu", lambda a: 1.0507009873554805 * np.where(a > 0, a, 1.6732632423543772 * np.expm1(
    np.minimum(a, 0))))
silu = swish = _activation("silu", lambda a: a / (1 + np.exp(-a)))
softsign = _activation("softsign", lambda a: a / (1 + np.abs(a)))


@operator
def leaky_relu(features, alpha=0.2, name=None):
    return unary("leaky_relu", features, _array_math(lambda a: np.where(a > 0, a, alpha * a)), float(alpha))


@operator
def gelu(features, approximate=False, name=None):
    x = convert(features)
    if x._is_first:
        return of_first(_engine.op("gelu")(x.first, bool(approximate)))
    return of_core(_engine.op("gelu")(x.core, bool(approximate)))


def _softmax_of(array, axis):
    moved = np.exp(array - array.max(axis=axis, keepdims=True))
    return moved / moved.sum(axis=axis, keepdims=True)


@operator
def softmax(logits, axis=-1, name=None):
    x, axis = convert(logits), -1 if axis is None else int(axis)
    if on_host(x):
        return of_host(_softmax_of(x._host, axis).astype(x._host.dtype))
    return of_core(_engine.op("softmax")(x.core, axis=axis))


@operator
def log_softmax(logits, axis=-1, name=None):
    x, axis = convert(logits), -1 if axis is None else int(axis)
    return of_core(_engine.op("log_softmax")(x.core, axis=axis))


@operator
def dropout(x, rate, noise_shape=None, seed=None, name=None):
    x = convert(x)
    rate = float(rate)
    if not 0 <= rate < 1:
        raise ValueError(f"`rate` must be a scalar tensor or a float in the range [0, 1). Received: rate={rate}")
    if rate == 0:
        return x
    if noise_shape is not None:
        from ._random import uniform
        sizes = [size if wanted is None else int(wanted) for wanted, size in zip(noise_shape, x._sizes)]
        kept = cast(uniform(sizes) >= rate, x.dtype)
        return multiply(x, multiply(kept, 1.0 / (1.0 - rate)))
    call = _engine.op("dropout")
    return of_first(call(x.first, rate)) if x._is_first else of_core(call(x.core, rate))


# Windows over images.


def spatial(value, count, name="strides"):
    """Numbers for the spatial dimensions, of one number, of one each, or of one for every dimension."""
    given = [int(one) for one in np.atleast_1d(np.asarray(value)).tolist()] if value is not None else [1]
    if len(given) == 1:
        return tuple(given * count)
    if len(given) == count:
        return tuple(given)
    if len(given) == count + 2:
        return tuple(given[1:-1])
    raise ValueError(f"{name} should be of length 1, {count} or {count + 2} but was {len(given)}")


def same_pads(sizes, filters, strides, dilations):
    before, after = [], []
    for size, width, stride, hole in zip(sizes, filters, strides, dilations):
        reach = (width - 1) * hole + 1
        missing = max((math.ceil(size / stride) - 1) * stride + reach - size, 0)
        before.append(missing // 2)
        after.append(missing - missing // 2)
    return before, after


def _pads(padding, sizes, filters, strides, dilations):
    if isinstance(padding, str):
        kind = padding.upper()
        if kind == "SAME":
            return same_pads(sizes, filters, strides, dilations)
        if kind == "VALID":
            return [0] * len(sizes), [0] * len(sizes)
        raise ValueError(f"padding must be 'SAME' or 'VALID', not {padding!r}")
    sides = [tuple(pair) for pair in padding][1:-1]
    return [a for a, _ in sides], [b for _, b in sides]


def _expect_last(data_format, first_names):
    if data_format is not None and data_format.upper() in first_names:
        raise InvalidArgumentError(f"data_format {data_format} is only for GPUs in TensorFlow; images have their "
                                   "channels last (NHWC)")


def _window_of(strides, before, after, dilations, groups=1):
    return _engine.window(strides=strides, pads=(before[0], before[1], after[0], after[1]), dilations=dilations,
                          groups=groups)


def _flat_window(stride, before, after, dilation=1, groups=1):
    return _engine.window(strides=(1, stride), pads=(0, before, 0, after), dilations=(1, dilation), groups=groups)


@operator
def convolve(x, kernel, strides, padding, dilations=1, bias=None):
    """A convolution of 1, 2 or 3 dimensions; the kernel is [sizes..., channels / groups, filters]."""
    x, kernel = convert(x), convert(kernel)
    count = x.ndim - 2
    if kernel.ndim != count + 2:
        raise InvalidArgumentError(f"filter must be {count + 2}-dimensional: {kernel.shape}")
    sizes, shape = x._sizes[1:-1], kernel._sizes
    strides, dilations = spatial(strides, count), spatial(dilations, count, "dilations")
    if x._sizes[-1] % shape[-2]:
        raise InvalidArgumentError(f"input depth must be evenly divisible by filter depth: {x._sizes[-1]} vs {shape[-2]}")
    groups = x._sizes[-1] // shape[-2]
    before, after = _pads(padding, sizes, shape[:count], strides, dilations)
    order = (count + 1, count) + tuple(range(count))
    turned = _engine.op("transpose")(kernel.core, order)
    given = [x.first, turned] + ([convert(bias).core] if bias is not None else [])
    options = {}
    if count == 1:
        options["window"] = _flat_window(strides[0], before[0], after[0], dilations[0], groups)
        return of_first(_engine.op("conv1d")(*given, **options))
    if count == 2:
        options["window"] = _window_of(strides, before, after, dilations, groups)
        return of_first(_engine.op("conv2d")(*given, **options))
    given[0], pads = _even_pads(x, before, after)
    return of_first(_engine.op("conv3d")(*given, strides=strides, pads=pads, dilations=dilations, groups=groups))


def _even_pads(x, before, after, value=0.0):
    """The engine pads volumes alike on both sides: what one side has more is added before."""
    if before == after:
        return x.first, tuple(before)
    more = _engine.op("pad")(x.first, (0, 0, *before), (0, 0, *after), value)
    return more, (0,) * len(before)


def conv1d(input, filters, stride, padding, data_format="NWC", dilations=None, name=None):
    _expect_last(data_format, ("NCW",))
    return convolve(input, filters, stride, padding, 1 if dilations is None else dilations)


def conv2d(input, filters, strides, padding, data_format="NHWC", dilations=None, name=None):
    _expect_last(data_format, ("NCHW",))
    return convolve(input, filters, strides, padding, 1 if dilations is None else dilations)


def conv3d(input, filters, strides, padding, data_format="NDHWC", dilations=None, name=None):
    _expect_last(data_format, ("NCDHW",))
    return convolve(input, filters, strides, padding, 1 if dilations is None else dilations)


def convolution(input, filters, strides=None, padding="VALID", data_format=None, dilations=None, name=None):
    return convolve(input, filters, 1 if strides is None else strides, padding, 1 if dilations is None else dilations)


@operator
def depthwise_conv2d(input, filter, strides, padding, data_format=None, dilations=None, name=None, bias=None):
    x, kernel = convert(input), convert(filter)
    height, width, channels, times = kernel._sizes
    strides, dilations = spatial(strides, 2), spatial(1 if dilations is None else dilations, 2, "dilations")
    before, after = _pads(padding, x._sizes[1:-1], (height, width), strides, dilations)
    turned = _engine.op("reshape")(_engine.op("transpose")(kernel.core, (2, 3, 0, 1)),
                                   (channels * times, 1, height, width))
    given = [x.first, turned] + ([convert(bias).core] if bias is not None else [])
    return of_first(_engine.op("conv2d")(*given, window=_window_of(strides, before, after, dilations, channels)))


def separable_conv2d(input, depthwise_filter, pointwise_filter, strides, padding, data_format=None, dilations=None,
                     name=None):
    x = depthwise_conv2d(input, depthwise_filter, strides, padding, data_format, dilations)
    return convolve(x, pointwise_filter, 1, "VALID")


@operator
def convolve_transpose(x, kernel, strides, padding, bias=None, output_padding=None):
    """The kernel is [sizes..., filters, channels], as Keras and tf.nn.conv2d_transpose have it."""
    x, kernel = convert(x), convert(kernel)
    count = x.ndim - 2
    strides, widths = spatial(strides, count), kernel._sizes[:count]
    before, after, more = [], [], []
    given = spatial(output_padding, count, "output_padding") if output_padding is not None else [None] * count
    for width, stride, wanted in zip(widths, strides, given):
        same = isinstance(padding, str) and padding.upper() == "SAME"
        if wanted is None:
            cut = max(width - stride, 0) if same else 0
            before.append(cut // 2)
            after.append(cut - cut // 2)
            more.append(max(stride - width, 0))
        else:
            pad = width // 2 if same else 0
            before.append(pad)
            after.append(pad - wanted if same else 0)
            more.append(0 if same else wanted)
    turned = _engine.op("transpose")(kernel.core, (count + 1, count) + tuple(range(count)))
    parts = [x.first, turned] + ([convert(bias).core] if bias is not None else [])
    if count == 1:
        return of_first(_engine.op("conv1d_transpose")(*parts, window=_flat_window(strides[0], before[0], after[0]),
                                                       output_pad=more[0]))
    if count == 2:
        return of_first(_engine.op("conv2d_transpose")(*parts, window=_window_of(strides, before, after, (1, 1)),
                                                       output_pads=tuple(more)))
    if before != after:
        raise NotImplementedError("plimsoll.tf: Conv3DTranspose pads alike on both sides: use an odd kernel_size - strides")
    return of_first(_engine.op("conv3d_transpose")(*parts, strides=strides, pads=tuple(before), output_pads=tuple(more)))


def conv2d_transpose(input, filters, output_shape, strides, padding="SAME", data_format="NHWC", dilations=None,
                     name=None):
    return convolve_transpose(input, filters, strides, padding)


conv1d_transpose = conv2d_transpose


@operator
def pool(x, kind, size, strides, padding):
    """max or average over windows of 1, 2 or 3 dimensions."""
    x = convert(x)
    count = x.ndim - 2
    size = spatial(size, count, "ksize")
    strides = size if strides is None else spatial(strides, count)
    before, after = _pads(padding, x._sizes[1:-1], size, strides, (1,) * count)
    name = f"{kind}_pool" + {1: "1d", 2: "", 3: "3d"}[count]
    call = _engine.op(name)
    if count == 1:
        return of_first(call(x.first, size[0], _flat_window(strides[0], before[0], after[0])))
    if count == 2:
        return of_first(call(x.first, size, _window_of(strides, before, after, (1, 1))))
    if kind == "average" and before != after:
        raise NotImplementedError("plimsoll.tf: AveragePooling3D with padding=\"same\" needs the same pads on both sides")
    first, pads = _even_pads(x, before, after, -3e38)
    return of_first(call(first, size, strides, pads))


def max_pool2d(input, ksize, strides, padding, data_format="NHWC", name=None):
    _expect_last(data_format, ("NCHW",))
    return pool(input, "max", ksize, strides, padding)


def avg_pool2d(input, ksize, strides, padding, data_format="NHWC", name=None):
    _expect_last(data_format, ("NCHW",))
    return pool(input, "average", ksize, strides, padding)


max_pool = max_pool1d = max_pool3d = max_pool2d
avg_pool = avg_pool1d = avg_pool3d = avg_pool2d


@operator
def bias_add(value, bias, data_format=None, name=None):
    x, bias = convert(value), convert(bias)
    if x._is_first:
        sizes = (bias._sizes[0],) + (1,) * (x.ndim - 2)
        return of_first(_engine.op("add")(x.first, _engine.op("reshape")(bias.core, sizes)))
    return add(x, bias)


@operator
def batch_normalization(x, mean, variance, offset, scale, variance_epsilon, name=None):
    return normalize_moments(convert(x), mean, variance, offset, scale, float(variance_epsilon))


@operator
def local_response_normalization(input, depth_radius=5, bias=1, alpha=1, beta=0.5, name=None):
    x, size = convert(input), 2 * int(depth_radius) + 1
    return of_first(_engine.op("local_response_norm")(x.first, size, float(alpha) * size, float(beta), float(bias)))


lrn = local_response_normalization


# Losses, one number for each sample.


@operator
def sparse_softmax_cross_entropy_with_logits(labels, logits, name=None):
    x, labels = convert(logits), convert(labels)
    if labels.ndim != x.ndim - 1:
        raise ValueError(f"`labels.shape.rank` must equal `logits.shape.rank - 1`. Received: labels.shape={labels.shape} "
                         f"and logits.shape={x.shape}")
    places = labels if labels.dtype.name in ("int32", "int64") else cast(labels, _types.int32)
    logs = _engine.op("log_softmax")(x.core, axis=-1)
    picked = _engine.op("take_along_axis")(logs, expand_dims(places, -1).core, axis=-1)
    return negative(squeeze(of_core(picked), -1))


@operator
def softmax_cross_entropy_with_logits(labels, logits, axis=-1, name=None):
    return negative(reduce_sum(multiply(cast(labels, convert(logits).dtype), log_softmax(logits, axis)), axis))


softmax_cross_entropy_with_logits_v2 = softmax_cross_entropy_with_logits


@operator
def sigmoid_cross_entropy_with_logits(labels=None, logits=None, name=None):
    x = convert(logits)
    labels = cast(labels, x.dtype)
    # max(x, 0) - x z + log(1 + exp(-|x|)) = softplus(x) - x z
    return subtract(softplus(x), multiply(x, labels))


@operator
def weighted_cross_entropy_with_logits(labels, logits, pos_weight, name=None):
    x, labels = convert(logits), convert(labels)
    weight = add(1.0, multiply(subtract(pos_weight, 1.0), labels))
    return add(multiply(subtract(1.0, labels), x), multiply(weight, softplus(negative(x))))


@operator
def l2_loss(t, name=None):
    return multiply(reduce_sum(square(convert(t))), 0.5)


@operator
def embedding_lookup(params, ids, max_norm=None, name=None):
    from ._array import gather
    return gather(params, ids)


@operator
def log_poisson_loss(targets, log_input, compute_full_loss=False, name=None):
    return subtract(exp(log_input), multiply(log_input, targets))


@operator
def crelu(features, axis=-1, name=None):
    from ._array import concat
    return concat([relu(features), relu(negative(features))], axis)


@operator
def zero_fraction(value, name=None):
    from ._elementwise import equal
    from ._reduce import reduce_mean
    return reduce_mean(cast(equal(convert(value), 0), _types.float32))


