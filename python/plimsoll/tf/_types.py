"""Element types and shapes with the words of TensorFlow: tf.float32, tf.TensorShape, tf.TensorSpec."""
import numpy as np


class DType:
    """An element type. Equal to its name, to NumPy's type and to itself."""

    def __init__(self, name, numpy_type, is_floating=False, is_integer=False):
        self.name = name
        self.as_numpy_dtype = numpy_type
        self.is_floating = is_floating
        self.is_integer = is_integer
        self.is_bool = name == "bool"
        self.is_complex = False
        self.is_unsigned = name.startswith("uint")

    is_numpy_compatible = True

    @property
    def base_dtype(self):
        return self

    @property
    def real_dtype(self):
        return self

    @property
    def size(self):
        return 2 if self.name == "bfloat16" else np.dtype(self.as_numpy_dtype).itemsize

    @property
    def min(self):
        return self._limits().min

    @property
    def max(self):
        return self._limits().max

    def _limits(self):
        if self.is_floating:
            return np.finfo(self.as_numpy_dtype)
        if self.is_integer:
            return np.iinfo(self.as_numpy_dtype)
        raise TypeError(f"Cannot find the limits of {self.name}")

    def is_compatible_with(self, other):
        return self == other

    def __eq__(self, other):
        if other is self:
            return True
        if other is None:
            return False
        try:
            return as_dtype(other) is self
        except TypeError:
            return False

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash(self.name)

    def __repr__(self):
        return "tf." + self.name

    def __str__(self):
        return f"<dtype: '{self.name}'>"

    def __reduce__(self):
        return as_dtype, (self.name,)


float16 = half = DType("float16", np.float16, is_floating=True)
bfloat16 = DType("bfloat16", np.float32, is_floating=True)  # NumPy has no such type: values are shown as float32
float32 = DType("float32", np.float32, is_floating=True)
float64 = double = DType("float64", np.float64, is_floating=True)
int8 = DType("int8", np.int8, is_integer=True)
int16 = DType("int16", np.int16, is_integer=True)
int32 = DType("int32", np.int32, is_integer=True)
int64 = DType("int64", np.int64, is_integer=True)
uint8 = DType("uint8", np.uint8, is_integer=True)
uint16 = DType("uint16", np.uint16, is_integer=True)
uint32 = DType("uint32", np.uint32, is_integer=True)
uint64 = DType("uint64", np.uint64, is_integer=True)
bool_ = DType("bool", np.bool_)
string = DType("string", np.object_)

_ALL = (float16, bfloat16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool_, string)
_BY_NAME = {dtype.name: dtype for dtype in _ALL}
_BY_NAME.update(half=float16, double=float64, float=float32, int=int32, str=string)
_BY_NUMPY = {np.dtype(dtype.as_numpy_dtype): dtype for dtype in _ALL if dtype.name not in ("bfloat16", "string")}
# What the engine computes with; other types live on the host and are converted when an operator needs them.
ENGINE = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int32": "i32", "int64": "i64", "uint8": "u8",
          "int8": "i8", "bool": "bool"}
OF_ENGINE = {short: _BY_NAME[name] for name, short in ENGINE.items()}
NEAREST = {"float64": float32, "int16": int32, "uint16": int32, "uint32": int64, "uint64": int64}


def as_dtype(value):
    """The DType of a name, a NumPy type, a Python type or a DType."""
    if isinstance(value, DType):
        return value
    if value is float:
        return float32
    if value is int:
        return int32
    if value is bool:
        return bool_
    if value in (str, bytes):
        return string
    if isinstance(value, str):
        name = value.split(".")[-1].removesuffix("_ref")
        if name in _BY_NAME:
            return _BY_NAME[name]
    if hasattr(value, "dtype") and isinstance(value.dtype, DType):
        return value.dtype
    try:
        kind = np.dtype(value)
    except TypeError:
        raise TypeError(f"Cannot convert the argument `type_value`: {value!r} to a TensorFlow DType.") from None
    if kind in _BY_NUMPY:
        return _BY_NUMPY[kind]
    if kind.kind in "OSU":
        return string
    raise TypeError(f"plimsoll.tf has no element type {kind}; cast the array to one of "
                    + ", ".join(dtype.name for dtype in _ALL))


class Dimension(int):
    """A size of a shape; `.value` as TensorFlow 1 wrote it."""

    @property
    def value(self):
        return int(self)


class TensorShape:
    """The sizes of a tensor; None where a size is not known yet."""

    __slots__ = ("_dims",)

    def __init__(self, dims=None):
        if isinstance(dims, TensorShape):
            self._dims = dims._dims
        elif dims is None:
            self._dims = None
        elif isinstance(dims, (int, np.integer)):
            self._dims = (int(dims),)
        else:
            self._dims = tuple(None if size is None or size == -1 else int(size) for size in dims)

    @property
    def rank(self):
        return None if self._dims is None else len(self._dims)

    ndims = rank

    @property
    def dims(self):
        return None if self._dims is None else [None if size is None else Dimension(size) for size in self._dims]

    def as_list(self):
        if self._dims is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return list(self._dims)

    def num_elements(self):
        if self._dims is None or None in self._dims:
            return None
        count = 1
        for size in self._dims:
            count *= size
        return count

    def is_fully_defined(self):
        return self._dims is not None and None not in self._dims

    def concatenate(self, other):
        return TensorShape(self._dims + TensorShape(other)._dims)

    def is_compatible_with(self, other):
        other = TensorShape(other)
        if self._dims is None or other._dims is None:
            return True
        return len(self._dims) == len(other._dims) and all(
            a is None or b is None or a == b for a, b in zip(self._dims, other._dims))

    def assert_is_compatible_with(self, other):
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {TensorShape(other)} are incompatible")

    def __len__(self):
        if self._dims is None:
            raise ValueError("Cannot take the length of shape with unknown rank.")
        return len(self._dims)

    def __iter__(self):
        return iter(self._dims)

    def __getitem__(self, key):
        found = self._dims[key]
        return TensorShape(found) if isinstance(key, slice) else found

    def __add__(self, other):
        return self.concatenate(other)

    def __radd__(self, other):
        return TensorShape(other).concatenate(self)

    def __eq__(self, other):
        if isinstance(other, TensorShape):
            return self._dims == other._dims
        try:
            return self._dims == TensorShape(other)._dims
        except (TypeError, ValueError):
            return False

    def __hash__(self):
        return hash(self._dims)

    def __bool__(self):
        return self._dims is not None

    def __repr__(self):
        return f"TensorShape({list(self._dims) if self._dims is not None else None})"

    def __str__(self):
        if self._dims is None:
            return "<unknown>"
        return "(" + ", ".join(str(size) for size in self._dims) + ("," if len(self._dims) == 1 else "") + ")"


class TensorSpec:
    """What a tensor looks like: its shape and its element type."""

    def __init__(self, shape=None, dtype=float32, name=None):
        self.shape = TensorShape(shape)
        self.dtype = as_dtype(dtype)
        self.name = name

    @classmethod
    def from_tensor(cls, tensor, name=None):
        return cls(tensor.shape, tensor.dtype, name)

    def is_compatible_with(self, other):
        return self.dtype == other.dtype and self.shape.is_compatible_with(other.shape)

    def __eq__(self, other):
        return isinstance(other, TensorSpec) and self.shape == other.shape and self.dtype == other.dtype

    def __hash__(self):
        return hash((self.shape, self.dtype))

    def __repr__(self):
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r})"
