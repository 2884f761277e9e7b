"""Operators element by element: arithmetic, comparison, functions of one number, casts."""
import numpy as np

from . import _engine, _types
from ._call import operator
from ._convert import convert
from ._tensor import Tensor, of_core, of_first, of_host
from ._types import as_dtype
from .errors import InvalidArgumentError

_FEW = 1024  # elements up to which numbers that are on the host are computed there


class Host:
    """Whether all that is on the host is computed there: in functions that a dataset maps over its elements."""

    depth = 0

    def __enter__(self):
        Host.depth += 1

    def __exit__(self, *what):
        Host.depth -= 1


def on_host(*tensors):
    """Whether an operator on these tensors is computed by NumPy."""
    for tensor in tensors:
        if not tensor.is_on_host:
            return False
        if Host.depth == 0 and tensor._host.size > _FEW and tensor._host.dtype != object:
            return False
    return True


def kept_first(*tensors):
    """Whether all are images with channels first, so that the result may stay so."""
    return all(tensor._is_first for tensor in tensors)


def unary(name, x, on_array, *numbers):
    x = convert(x)
    if on_host(x):
        return of_host(np.asarray(on_array(x._host), None))
    if x._is_first:
        return of_first(_engine.op(name)(x.first, *numbers))
    return of_core(_engine.op(name)(x.core, *numbers))


def pair(x, y, what):
    """Both as tensors of one type."""
    if not isinstance(x, Tensor) and not getattr(x, "is_variable", False):
        if isinstance(y, Tensor) or getattr(y, "is_variable", False):
            y = convert(y)
            x = _like(x, y)
        else:
            x = convert(x)
            y = convert(y, hint=x.dtype)
    else:
        x = convert(x)
        y = _like(y, x)
    a, b = x.dtype, y.dtype
    if a is not b:
        if a.name in ("float32", "float64") and b.name in ("float32", "float64"):
            return (x, of_host(y._host.astype(a.as_numpy_dtype)) if y.is_on_host else y) if not (
                x.is_on_host and not y.is_on_host) else (of_host(x._host.astype(b.as_numpy_dtype)), y)
        raise InvalidArgumentError(f"cannot compute {what} as input #1(zero-based) was expected to be a "
                                   f"{a.name} tensor but is a {b.name} tensor; use tf.cast")
    return x, y


def _like(value, tensor):
    """A number or array in the type of the tensor that it is combined with."""
    if isinstance(value, Tensor) or getattr(value, "is_variable", False):
        return convert(value)
    if isinstance(value, (bool, np.bool_)) and not tensor.dtype.is_bool:
        raise TypeError(f"Cannot convert {value!r} to EagerTensor of dtype {tensor.dtype.name}")
    if isinstance(value, (int, float)):
        return convert(value, tensor.dtype)
    return convert(value, hint=tensor.dtype)


def binary(name, x, y, on_arrays, what):
    x, y = pair(x, y, what)
    if on_host(x, y):
        return of_host(_kept_type(on_arrays, x._host, y._host))
    call = _engine.op(name)
    if kept_first(x, y) and x.shape == y.shape:
        return of_first(call(x.first, y.first))
    return of_core(call(*_broadcastable(x, y)))


def _broadcastable(x, y):
    return x.core, y.core


def _kept_type(on_arrays, a, b):
    with np.errstate(all="ignore"):
        made = on_arrays(a, b)
    return made if made.dtype == np.bool_ else np.asarray(made, a.dtype)


def _number_of(value):
    """The number, where it is one of Python that operators may be made for; else None."""
    return value if type(value) in (int, float) and _engine.is_constant(value) else None


def _with_number(x, number, core_call):
    if x._is_first:
        return of_first(core_call(x.first, number))
    return of_core(core_call(x.core, number))


def _arithmetic(name, on_arrays, what, forward, backward):
    def call(x, y, name_=None):
        if isinstance(x, Tensor) or getattr(x, "is_variable", False):
            number = _number_of(y)
            if number is not None:
                x = convert(x)
                if not x.is_on_host and x.dtype.is_floating:
                    return _with_number(x, number, forward)
        elif isinstance(y, Tensor) or getattr(y, "is_variable", False):
            number = _number_of(x)
            if number is not None:
                y = convert(y)
                if not y.is_on_host and y.dtype.is_floating:
                    return _with_number(y, number, backward)
        return binary(name, x, y, on_arrays, what)
    return call


_add = _arithmetic("add", np.add, "AddV2", lambda x, c: x + c, lambda y, c: c + y)
_subtract = _arithmetic("sub", np.subtract, "Sub", lambda x, c: x - c, lambda y, c: c - y)
_multiply = _arithmetic("mul", np.multiply, "Mul", lambda x, c: x * c, lambda y, c: c * y)
_divide = _arithmetic("div", np.divide, "RealDiv", lambda x, c: x / c, lambda y, c: c / y)


@operator
def add(x, y, name=None):
    x_ = x
    if isinstance(x_, Tensor) and x_.dtype.name == "string":
        return of_host(np.asarray(np.add(x_.host_array(), convert(y).host_array()), object))
    return _add(x, y)


@operator
def subtract(x, y, name=None):
    return _subtract(x, y)


@operator
def multiply(x, y, name=None):
    return _multiply(x, y)


@operator
def divide(x, y, name=None):
    """x / y; of integers as float (float64 in TensorFlow, float32 here)."""
    kind = getattr(x, "dtype", None) or getattr(y, "dtype", None)
    if kind is not None and as_dtype(kind).is_integer:
        x, y = pair(x, y, "RealDiv")
        x, y = cast(x, _types.float32), cast(y, _types.float32)
    elif kind is None and isinstance(x, int) and isinstance(y, int):
        x = float(x)
    return _divide(x, y)


truediv = divide


@operator
def divide_no_nan(x, y, name=None):
    x, y = pair(x, y, "DivNoNan")
    from ._array import where, zeros_like
    bad = equal(y, 0)
    return where(bad, zeros_like(add(x, y)), divide(x, where(bad, cast(1, y.dtype), y)))


@operator
def floordiv(x, y, name=None):
    x, y = pair(x, y, "FloorDiv")
    if on_host(x, y):
        return of_host(_kept_type(np.floor_divide, x._host, y._host))
    if x.dtype.is_integer:
        return binary("div", x, y, np.floor_divide, "FloorDiv")
    return floor(_divide(x, y))


@operator
def floormod(x, y, name=None):
    return binary("mod", x, y, np.mod, "FloorMod")


mod = floormod


@operator
def pow(x, y, name=None):
    if isinstance(y, (int, float)) and not isinstance(x, (int, float)):
        x = convert(x)
        if not x.is_on_host and x.dtype.is_floating:
            if y == 2:
                return square(x)
            if y == 0.5:
                return sqrt(x)
            if y == 1:
                return x
            if y == 3:
                return multiply(square(x), x)
    return binary("pow", x, y, np.power, "Pow")


@operator
def maximum(x, y, name=None):
    return binary("maximum", x, y, np.maximum, "Maximum")


@operator
def minimum(x, y, name=None):
    return binary("minimum", x, y, np.minimum, "Minimum")


@operator
def squared_difference(x, y, name=None):
    return square(subtract(x, y))


@operator
def atan2(y, x, name=None):
    y, x = pair(y, x, "Atan2")
    if on_host(x, y):
        return of_host(np.asarray(np.arctan2(y._host, x._host)))
    from ._array import where
    straight = atan(divide(y, x))
    turned = add(straight, where(less(y, 0.0), -np.pi, np.pi))
    return where(less(x, 0.0), turned, straight)


def _comparison(name, on_arrays, what):
    @operator
    def call(x, y, name=None):
        return binary(core_name, x, y, on_arrays, what)
    core_name = name
    call.__name__ = call.__qualname__ = name
    return call


less = _comparison("less", np.less, "Less")
less_equal = _comparison("less_equal", np.less_equal, "LessEqual")
greater = _comparison("greater", np.greater, "Greater")
greater_equal = _comparison("greater_equal", np.greater_equal, "GreaterEqual")
_equal = _comparison("equal", np.equal, "Equal")
_not_equal = _comparison("not_equal", np.not_equal, "NotEqual")


@operator
def equal(x, y, name=None):
    return _equal(x, y)


@operator
def not_equal(x, y, name=None):
    return _not_equal(x, y)


@operator
def logical_and(x, y, name=None):
    return binary("logical_and", x, y, np.logical_and, "LogicalAnd")


@operator
def logical_or(x, y, name=None):
    return binary("logical_or", x, y, np.logical_or, "LogicalOr")


@operator
def logical_xor(x, y, name="LogicalXor"):
    return binary("logical_xor", x, y, np.logical_xor, "LogicalXor")


@operator
def logical_not(x, name=None):
    return unary("logical_not", x, np.logical_not)


def _array_math(function):
    def call(array):
        with np.errstate(all="ignore"):
            return np.asarray(function(array), array.dtype)
    return call


def _function(name, on_array, core_name=None):
    apply = _array_math(on_array)

    @operator
    def call(x, name=None):
        return unary(chosen, x, apply)
    chosen = core_name or name
    call.__name__ = call.__qualname__ = name
    return call


def _erf(array):
    from math import erf as one
    return np.vectorize(one, otypes=[np.float64])(array) if array.size else array


exp = _function("exp", np.exp)
log = _function("log", np.log)
expm1 = _function("expm1", np.expm1)
log1p = _function("log1p", np.log1p)
sqrt = _function("sqrt", np.sqrt)
rsqrt = _function("rsqrt", lambda a: 1 / np.sqrt(a))
square = _function("square", np.square)
erf = _function("erf", _erf)
sin = _function("sin", np.sin)
cos = _function("cos", np.cos)
tan = _function("tan", np.tan)
asin = _function("asin", np.arcsin)
acos = _function("acos", np.arccos)
atan = _function("atan", np.arctan)
sinh = _function("sinh", np.sinh)
cosh = _function("cosh", np.cosh)
tanh = _function("tanh", np.tanh)
asinh = _function("asinh", np.arcsinh)
acosh = _function("acosh", np.arccosh)
atanh = _function("atanh", np.arctanh)
floor = _function("floor", np.floor)
ceil = _function("ceil", np.ceil)
sign = _function("sign", np.sign)
negative = _function("negative", np.negative, "neg")
reciprocal = _function("reciprocal", lambda a: 1 / a)
sigmoid = _function("sigmoid", lambda a: 1 / (1 + np.exp(-a)))
softplus = _function("softplus", lambda a: np.logaddexp(a, 0))
log_sigmoid = _function("log_sigmoid", lambda a: -np.logaddexp(-a, 0))


@operator
def abs(x, name=None):
    return unary("abs", x, _array_math(np.abs))


@operator
def round(x, name=None):
    x = convert(x)
    return x if x.dtype.is_integer else unary("round", x, _array_math(np.round))


rint = round


@operator
def is_nan(x, name=None):
    return unary("isnan", x, np.isnan)


@operator
def is_inf(x, name=None):
    return unary("isinf", x, np.isinf)


@operator
def is_finite(x, name=None):
    return unary("isfinite", x, np.isfinite)


@operator
def cast(x, dtype, name=None):
    dtype = as_dtype(dtype)
    if isinstance(x, (int, float)) and not isinstance(x, bool):
        return convert(np.asarray(x).astype(dtype.as_numpy_dtype), dtype)
    x = convert(x)
    if x.dtype is dtype:
        return x
    if x.dtype.name == "string" or dtype.name == "string":
        raise errors_unimplemented(x.dtype, dtype)
    wide = dtype.name not in _types.ENGINE
    if on_host(x) or (wide and x.is_on_host):
        with np.errstate(all="ignore"):
            return of_host(x._host.astype(dtype.as_numpy_dtype), dtype if dtype.name == "bfloat16" else None)
    if wide:
        nearest = _types.NEAREST[dtype.name]
        _engine.note(dtype.name, f"{dtype.name} is computed as {nearest.name}")
        if x.dtype is nearest:
            return x
        dtype = nearest
    call = _engine.op("cast")
    name = _types.ENGINE[dtype.name]
    if x._is_first:
        return of_first(call(x.first, name))
    return of_core(call(x.core, name))


def errors_unimplemented(a, b):
    from .errors import UnimplementedError
    return UnimplementedError(f"Cast {a.name} to {b.name} is not supported; tf.strings.to_number and tf.strings."
                              "as_string convert text")


def saturate_cast(value, dtype, name=None):
    dtype, value = as_dtype(dtype), convert(value)
    if dtype.is_integer:
        value = clip_by_value(value, float(dtype.min) if value.dtype.is_floating else dtype.min,
                              float(dtype.max) if value.dtype.is_floating else dtype.max)
    return cast(value, dtype)


@operator
def clip_by_value(t, clip_value_min, clip_value_max, name=None):
    t = convert(t)
    if type(clip_value_min) in (int, float) and type(clip_value_max) in (int, float) and t.dtype.is_floating \
            and not t.is_on_host and _engine.is_constant(clip_value_min) and _engine.is_constant(clip_value_max):
        call = _engine.op("clip")
        if t._is_first:
            return of_first(call(t.first, float(clip_value_min), float(clip_value_max)))
        return of_core(call(t.core, float(clip_value_min), float(clip_value_max)))
    return minimum(maximum(t, clip_value_min), clip_value_max)


@operator
def lerp(a, b, weight):
    return add(a, multiply(subtract(b, a), weight))


@operator
def xlogy(x, y, name=None):
    from ._array import where, zeros_like
    x, y = pair(x, y, "Xlogy")
    none = equal(x, 0)
    return where(none, zeros_like(y), multiply(x, log(where(none, cast(1, y.dtype), y))))


@operator
def add_n(inputs, name=None):
    total = convert(inputs[0])
    for part in inputs[1:]:
        total = add(total, part)
    return total


def accumulate_n(inputs, shape=None, tensor_dtype=None, name=None):
    return add_n(inputs)
