"""tf.keras.backend."""
from .. import _array, _elementwise, _linear, _nn, _reduce
from .._absent import absent
from .._convert import convert
from ._state import epsilon, floatx, reset_names, set_epsilon, set_floatx, state, unique_name

__all__ = ["epsilon", "floatx", "set_epsilon", "set_floatx"]


def clear_session(free_memory=True):
    """Names begin again; weights that nobody holds are given back at once."""
    import gc
    reset_names()
    gc.collect()


def get_uid(prefix=""):
    return unique_name(prefix)


def learning_phase():
    return int(bool(state.training))


def set_learning_phase(value):
    state.training = bool(value)


def image_data_format():
    return "channels_last"


def set_image_data_format(data_format):
    if data_format != "channels_last":
        raise ValueError("plimsoll.tf has its images with channels last")


def backend():
    return "tensorflow"


def get_value(x):
    return x.numpy()


def set_value(x, value):
    if hasattr(x, "assign"):
        x.assign(value)
    else:
        raise ValueError("set_value takes a variable; an optimiser's rate is set by optimizer.learning_rate = value")


def int_shape(x):
    return tuple(convert(x).shape)


def mean(x, axis=None, keepdims=False):
    return _reduce.reduce_mean(_float(x), axis, keepdims)


def _float(x):
    from .._types import float32
    x = convert(x)
    return x if x.dtype.is_floating else _elementwise.cast(x, float32)


def sum(x, axis=None, keepdims=False):
    return _reduce.reduce_sum(x, axis, keepdims)


def max(x, axis=None, keepdims=False):
    return _reduce.reduce_max(x, axis, keepdims)


def min(x, axis=None, keepdims=False):
    return _reduce.reduce_min(x, axis, keepdims)


def clip(x, min_value, max_value):
    return _elementwise.clip_by_value(x, min_value, max_value)


def batch_flatten(x):
    return _array.reshape(x, (convert(x).shape[0], -1))


def dot(x, y):
    return _linear.matmul(x, y) if convert(x).ndim == 2 else _linear.tensordot(x, y, 1)


abs, exp, log, sqrt, square, pow, round = (_elementwise.abs, _elementwise.exp, _elementwise.log, _elementwise.sqrt,
                                           _elementwise.square, _elementwise.pow, _elementwise.round)
maximum, minimum, equal, cast, sigmoid, tanh = (_elementwise.maximum, _elementwise.minimum, _elementwise.equal,
                                                _elementwise.cast, _elementwise.sigmoid, _elementwise.tanh)
argmax, any, all, std, var = (_reduce.argmax, _reduce.reduce_any, _reduce.reduce_all, _reduce.reduce_std,
                              _reduce.reduce_variance)
relu, softmax, l2_normalize = _nn.relu, _nn.softmax, _reduce.l2_normalize
zeros, ones, zeros_like, ones_like, reshape, expand_dims, squeeze, stack, transpose, tile, shape = (
    _array.zeros, _array.ones, _array.zeros_like, _array.ones_like, _array.reshape, _array.expand_dims, _array.squeeze,
    _array.stack, _array.transpose, _array.tile, _array.shape)


def concatenate(tensors, axis=-1):
    return _array.concat(tensors, axis)


def flatten(x):
    return _array.reshape(x, (-1,))


def binary_crossentropy(target, output, from_logits=False):
    from .losses import logits_of
    from . import losses
    x = logits_of(convert(output), from_logits, "sigmoid")
    if x is not None:
        return _nn.sigmoid_cross_entropy_with_logits(target, x)
    p = _elementwise.clip_by_value(output, epsilon(), 1.0 - epsilon())
    y, p = losses._both(target, p)
    return -(y * _elementwise.log(p) + (1.0 - y) * _elementwise.log(1.0 - p))


__getattr__ = absent("tf.keras.backend", globals())
