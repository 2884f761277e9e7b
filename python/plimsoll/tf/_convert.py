"""What tf.convert_to_tensor and tf.constant make of numbers, arrays, lists and tensors."""
import numpy as np

from . import _engine, _types
from ._call import Mode, operator, record
from ._tensor import Tensor, of_core, of_host
from ._types import as_dtype

_SMALL = 1 << 16  # bytes up to which constants stay on the host until an operator of the engine needs them


def is_tensor(x):
    return isinstance(x, Tensor) or getattr(x, "is_variable", False) or isinstance(x, IndexedSlices)


def array_of(value, dtype=None):
    """A NumPy array with TensorFlow's choice of a type: Python's floats are float32, its integers int32."""
    if isinstance(value, np.ndarray):
        array = value
    elif isinstance(value, np.generic):
        array = np.asarray(value)
    elif hasattr(value, "__array__"):
        array = np.asarray(value)
    else:
        try:
            array = np.array(value)
        except ValueError:
            raise ValueError("Can't convert non-rectangular Python sequence to Tensor.") from None
        except OverflowError:
            array = np.array(value, object)
        has_numpy = _has_numpy(value)
        if array.dtype == np.float64 and not has_numpy:
            array = array.astype(np.float32)
        elif array.dtype == np.int64 and not has_numpy:
            if array.size == 0 and not isinstance(value, int):
                array = array.astype(np.float32)
            elif not array.size or (array.max() <= 2**31 - 1 and array.min() >= -2**31):
                array = array.astype(np.int32)
            elif dtype is None:
                raise ValueError("Attempt to convert a value with an integer too large for int32; give dtype=tf.int64")
    if array.dtype.kind in "US":
        array = np.vectorize(_bytes_of, otypes=[object])(array) if array.size else array.astype(object)
        array = np.asarray(array, object)
    elif array.dtype.kind == "O":
        flat = array.ravel()
        if not all(isinstance(item, (str, bytes)) for item in flat):
            raise ValueError(f"Failed to convert a NumPy array to a Tensor (Unsupported object type "
                             f"{type(next(item for item in flat if not isinstance(item, (str, bytes)))).__name__}).")
        array = np.array([_bytes_of(item) for item in flat] + [None], object)[:-1].reshape(array.shape)
    elif array.dtype.kind == "c":  # complex
        raise TypeError("plimsoll.tf has no complex numbers")
    return array


def _has_numpy(value):
    if isinstance(value, (np.ndarray, np.generic)):
        return True
    if isinstance(value, (list, tuple)):
        return bool(value) and _has_numpy(value[0])
    return False


def _bytes_of(item):
    return item.encode() if isinstance(item, str) else bytes(item)


def _cast_array(array, dtype):
    if dtype.name == "bool" and array.dtype != np.bool_:
        raise TypeError(f"Cannot convert {array!r} to EagerTensor of dtype bool")
    if dtype.name == "string":
        if array.dtype != object:
            raise TypeError(f"Cannot convert {array!r} to EagerTensor of dtype string")
        return array
    if array.dtype == object:
        raise TypeError(f"Cannot convert {array.ravel()[:1]!r} to EagerTensor of dtype {dtype.name}")
    return array.astype(dtype.as_numpy_dtype, copy=False)


def _contains_tensor(value):
    return isinstance(value, (list, tuple)) and any(
        isinstance(part, Tensor) or getattr(part, "is_variable", False) or _contains_tensor(part) for part in value)


def convert(value, dtype=None, hint=None, copies=False):
    """A Tensor of anything that TensorFlow takes for one."""
    if isinstance(value, Tensor):
        if dtype is not None and value.dtype != dtype:
            raise ValueError(f"Tensor conversion requested dtype {as_dtype(dtype).name} for Tensor with dtype "
                             f"{value.dtype.name}: {value!r}")
        return value
    if getattr(value, "is_variable", False):
        return convert(value._read(), dtype)
    if isinstance(value, IndexedSlices):
        return value.to_dense()
    if value is None:
        raise ValueError("Attempt to convert a value (None) with an unsupported type (<class 'NoneType'>) to a Tensor.")
    if _contains_tensor(value):
        from ._array import stack
        first = next(part for part in value if not isinstance(part, (int, float)) or isinstance(part, bool)) \
            if not all(isinstance(part, (int, float)) for part in value) else value[0]
        kind = dtype or (convert(first).dtype if first is not None else None)
        return stack([convert(part, hint=kind) for part in value])
    if isinstance(value, (_types.TensorShape,)):
        value = np.array(value.as_list(), np.int32)
    if isinstance(value, _types.DType):
        raise TypeError(f"Cannot convert {value!r} to a tensor")
    if not isinstance(value, (bool, int, float, str, bytes, list, tuple, np.ndarray, np.generic)) \
            and not hasattr(value, "__array__"):
        raise ValueError(f"Attempt to convert a value ({value!r}) with an unsupported type ({type(value)}) to a Tensor.")
    if dtype is not None:
        dtype = as_dtype(dtype)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and dtype.name not in ("string", "bool"):
            if isinstance(value, float) and dtype.is_integer:
                raise TypeError(f"Cannot convert {value!r} to EagerTensor of dtype {dtype.name}")
            array = np.asarray(value, dtype.as_numpy_dtype)
        else:
            array = _cast_array(array_of(value, dtype), dtype)
        return of_host(_own(array, value, copies), dtype if dtype.name == "bfloat16" else None)
    array = array_of(value)
    if hint is not None and as_dtype(hint) != array.dtype and _fits(array, value, as_dtype(hint)):
        hint = as_dtype(hint)
        return of_host(array.astype(hint.as_numpy_dtype), hint if hint.name == "bfloat16" else None)
    return of_host(_own(array, value, copies))


def _own(array, value, copies):
    return array.copy() if copies and isinstance(value, np.ndarray) and np.shares_memory(array, value) else array


def _fits(array, value, hint):
    if hint.name in ("bool", "string") or array.dtype.kind not in "fiub" or array.dtype.kind == "b":
        return False
    if isinstance(value, (np.ndarray, np.generic)) and not hint.is_floating and array.dtype.kind == "f":
        return False
    return hint.is_floating or array.dtype.kind in "iu"


@operator
def convert_to_tensor(value, dtype=None, dtype_hint=None, name=None):
    return convert(value, dtype, dtype_hint)


def constant(value, dtype=None, shape=None, name="Const"):
    """A tensor of these numbers. Later changes of an array that was given do not change it."""
    if isinstance(value, Tensor) and value.is_symbolic:
        raise TypeError("tf.constant takes numbers; this is a tensor that has no value yet")
    if isinstance(value, np.ndarray) and value.nbytes > _SMALL and value.dtype.kind not in "OSU" and shape is None:
        # Straight into the engine's memory, under the line: no second copy on the host.
        kind = as_dtype(dtype) if dtype is not None else as_dtype(value.dtype)
        if value.size and (kind.name in _types.ENGINE or kind.name == "float64"):
            return of_core(_engine.upload(value, kind))
    tensor = convert(value, dtype, copies=True) if not isinstance(value, Tensor) else convert(value, dtype)
    if shape is not None:
        sizes = tuple(_types.TensorShape(shape))
        array = tensor.host_array()
        if array.size == 1:
            array = np.broadcast_to(array.reshape(()), sizes).copy()
        elif array.size != int(np.prod(sizes)):
            raise TypeError(f"Eager execution of tf.constant with unsupported shape. Tensor {value!r} (converted from "
                            f"{value!r}) has {array.size} elements, but got `shape` {sizes}")
        tensor = of_host(array.reshape(sizes), tensor._label)
    if Mode.graph is not None:
        return record(_same, (tensor,), {}, kind="Const", name=name)
    return tensor


def _same(tensor):
    return tensor


class IndexedSlices:
    """Rows of a tensor by number: what the gradient of a table is whose rows were gathered."""

    def __init__(self, values, indices, dense_shape=None):
        self.values = values
        self.indices = indices
        self.dense_shape = dense_shape

    @property
    def dtype(self):
        return self.values.dtype

    @property
    def shape(self):
        return _types.TensorShape([int(size) for size in np.asarray(self.dense_shape)])

    def to_dense(self):
        rows = int(np.asarray(self.dense_shape)[0])
        return of_core(_engine.op("segment_sum")(self.values.core, self.indices.core, rows))

    def numpy(self):
        return self.to_dense().numpy()

    def __neg__(self):
        return IndexedSlices(-self.values, self.indices, self.dense_shape)

    def __mul__(self, number):
        return IndexedSlices(self.values * number, self.indices, self.dense_shape)

    def __truediv__(self, number):
        return IndexedSlices(self.values / number, self.indices, self.dense_shape)

    __rmul__ = __mul__

    def __add__(self, other):
        return self.to_dense() + convert(other)

    __radd__ = __add__

    def __repr__(self):
        return f"IndexedSlices(indices={self.indices!r}, values={self.values!r}, dense_shape={self.dense_shape!r})"
