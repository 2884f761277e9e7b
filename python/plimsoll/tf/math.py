"""tf.math."""
from . import _elementwise, _nn
from ._absent import absent
from ._elementwise import (abs, accumulate_n, acos, acosh, add, add_n, asin, asinh, atan, atan2, atanh, ceil, cos, cosh,
                           divide, divide_no_nan, equal, erf, exp, expm1, floor, floordiv, floormod, greater, greater_equal,
                           is_finite, is_inf, is_nan, less, less_equal, log, log1p, log_sigmoid, logical_and, logical_not,
                           logical_or, logical_xor, maximum, minimum, mod, multiply, negative, not_equal, pow, reciprocal,
                           rint, round, rsqrt, sigmoid, sign, sin, sinh, softplus, sqrt, square, squared_difference,
                           subtract, tan, tanh, truediv, xlogy)
from ._nn import softmax, softsign, zero_fraction
from ._reduce import (argmax, argmin, bincount, confusion_matrix, count_nonzero, cumprod, cumsum, in_top_k, l2_normalize,
                      reduce_all, reduce_any, reduce_euclidean_norm, reduce_logsumexp, reduce_max, reduce_mean, reduce_min,
                      reduce_prod, reduce_std, reduce_sum, reduce_variance, segment_max, segment_mean, segment_min,
                      segment_sum, top_k, unsorted_segment_max, unsorted_segment_mean, unsorted_segment_min,
                      unsorted_segment_sum)

log_softmax = _nn.log_softmax
ceiling = ceil
multiply_no_nan = _elementwise.multiply


def scalar_mul(scalar, x, name=None):
    return multiply(x, scalar)


__getattr__ = absent("tf.math", globals())
