"""TensorFlow programs over the engine: `import plimsoll.tf as tf`, and nothing else changes.

    import plimsoll.tf as tf
    tf.set_line("256MiB")                    # or PLIMSOLL_LINE=256MiB; the process stays below it

A name that is not here fails at once and says what to use instead: docs/tensorflow.md.
"""
from . import (autograph, compat, config, data, debugging, distribute, dtypes, errors, experimental, image, io, keras,
               linalg, math, nest, nn, profiler, random, strings, summary, sysconfig, test, train)
from ._absent import absent
from ._array import (boolean_mask, broadcast_dynamic_shape, broadcast_static_shape, broadcast_to,
                     concat, expand_dims, eye, fill, gather, gather_nd, identity, linspace, meshgrid, one_hot, ones,
                     ones_like, pad, range, rank, repeat, reshape, reverse, roll, scatter_nd, searchsorted, sequence_mask,
                     shape, shape_n, size, split, squeeze, stack, stop_gradient, tensor_scatter_nd_add,
                     tensor_scatter_nd_max, tensor_scatter_nd_min, tensor_scatter_nd_sub, tensor_scatter_nd_update, tile,
                     transpose, unique, unstack, where, zeros, zeros_like)
from ._control import (Assert, case, cond, control_dependencies, custom_gradient, device, executing_eagerly, foldl, foldr,
                       function, group, init_scope, is_symbolic_tensor, map_fn, no_op, numpy_function,
                       print_ as print, py_function, scan, switch_case, timestamp, tuple_ as tuple, vectorized_map,
                       while_loop)
from ._convert import IndexedSlices, constant, convert_to_tensor, is_tensor
from ._elementwise import (abs, acos, acosh, add, add_n, asin, asinh, atan, atan2, atanh, cast, clip_by_value, cos, cosh,
                           divide, equal, exp, floor, floordiv as floor_div, greater, greater_equal, less, less_equal,
                           logical_and, logical_not, logical_or, maximum, minimum, floormod as mod, multiply, negative,
                           not_equal, pow, round, saturate_cast, sigmoid, sign, sin, sinh, sqrt, square, subtract, tan,
                           tanh, truediv)
from ._engine import get_line, set_line
from ._linear import (clip_by_global_norm, clip_by_norm, einsum, matmul, norm, tensordot)
from . import _operators
from ._reduce import (argmax, argmin, argsort, cumsum, histogram_fixed_width, reduce_all, reduce_any, reduce_logsumexp,
                      reduce_max, reduce_mean, reduce_min, reduce_prod, reduce_sum, sort)
from ._tape import GradientTape, UnconnectedGradients
from ._tensor import Tensor
from ._types import DType, TensorShape, TensorSpec, as_dtype
from ._types import (bfloat16, bool_ as bool, double, float16, float32, float64, half, int8, int16, int32, int64, string,
                     uint8, uint16, uint32, uint64)
from ._variable import Variable
from .debugging import assert_equal, assert_greater, assert_less
from .keras import initializers as _initializers
from .module import Module
from .tensor_array import TensorArray

__version__ = "2.21.0"  # of TensorFlow, whose names and semantics these are
newaxis = None
VERSION = __version__
initializers, losses, metrics, optimizers = keras.initializers, keras.losses, keras.metrics, keras.optimizers


class version:
    VERSION = __version__
    GIT_VERSION = "plimsoll"


def name_scope(name, *args, **kwargs):
    return compat.v1.name_scope(name)


def gradients(ys, xs, *args, **kwargs):
    return compat.v1.gradients(ys, xs, *args, **kwargs)


def get_static_value(tensor, partial=False):
    return None if getattr(tensor, "is_symbolic", False) else tensor.numpy()


def ensure_shape(x, shape, name=None):
    x = convert_to_tensor(x)
    x.set_shape(shape)
    return x


def recompute_grad(f):
    """The function: what is dropped and computed again is planned for the line anyway."""
    return f


def get_logger():
    import logging
    return logging.getLogger("tensorflow")


def random_normal_initializer(mean=0.0, stddev=0.05, seed=None):
    return _initializers.RandomNormal(mean, stddev, seed)


def random_uniform_initializer(minval=-0.05, maxval=0.05, seed=None):
    return _initializers.RandomUniform(minval, maxval, seed)


def zeros_initializer():
    return _initializers.Zeros()


def ones_initializer():
    return _initializers.Ones()


def constant_initializer(value=0):
    return _initializers.Constant(value)


_V1 = ("Session", "placeholder", "global_variables_initializer", "get_variable", "variable_scope", "ConfigProto",
       "InteractiveSession", "reset_default_graph", "disable_eager_execution", "trainable_variables")
__getattr__ = absent("tf", globals(), {
    **{name: f"tf.compat.v1.{name}" for name in _V1},
    "contrib": "the names of tf.keras", "estimator": "tf.keras.Model", "ragged": "tf.keras.utils.pad_sequences",
    "RaggedTensor": "tf.keras.utils.pad_sequences", "sparse": "dense tensors", "SparseTensor": "a dense tensor",
    "lite": "plimsoll's quantise", "saved_model": "model.save(\"model.keras\")", "feature_column": "tf.keras.layers",
    "signal": "NumPy", "Graph": "tf.compat.v1.Graph", "to_float": "tf.cast", "log": "tf.math.log",
    "rsqrt": "tf.math.rsqrt", "random_normal": "tf.random.normal", "random_uniform": "tf.random.uniform",
    "reduce_std": "tf.math.reduce_std", "reduce_variance": "tf.math.reduce_variance"})
