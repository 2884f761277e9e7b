"""tf.Tensor: numbers of the engine, or of the host where the engine has no such type or they are only few.

A tensor has its numbers in one to three places, and each place is filled when somebody first needs it:
`host`, a NumPy array; `core`, a tensor of the engine; `first`, the same with channels before height and width, which is
how the engine's image operators take it, while TensorFlow has channels last.
"""
import numpy as np

from . import _engine, _types
from ._types import TensorShape

_TO_FIRST = {3: (0, 2, 1), 4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}
_TO_LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}


class Tensor:
    """A value. Made by tf.constant, operators and layers."""

    __slots__ = ("_core", "_host", "_first", "_is_first", "_label", "logits", "_keras_mask", "__weakref__")
    __array_priority__ = 100
    is_symbolic = False

    def __init__(self, core=None, host=None, first=None):
        self._core = core
        self._host = host
        self._first = first
        self._is_first = first is not None  # the numbers were made with channels first
        self.logits = None  # (kind, tensor): of probabilities, what they were made of
        self._keras_mask = None
        self._label = None  # another type than that of the numbers: bfloat16 on the host

    # Places.

    @property
    def core(self):
        """The tensor of the engine, channels last."""
        if self._core is None:
            if self._first is not None:
                self._core = _engine.op("transpose")(self._first, _TO_LAST[_engine.rank(self._first)])
            else:
                self._core = _engine.upload(self._host, self._label)
        return self._core

    @property
    def first(self):
        """The tensor of the engine, channels first; of an image, a sequence or a volume."""
        if self._first is None:
            core = self.core
            self._first = _engine.op("transpose")(core, _TO_FIRST[_engine.rank(core)])
        return self._first

    @property
    def source(self):
        """The place from which the others were made: what a tape differentiates with respect to."""
        return self._first if self._is_first else self.core

    def forget_views(self):
        """Lets go of the places that are made of the source."""
        if self._is_first:
            self._core = None
        elif self._core is not None:
            self._first = None

    @property
    def is_on_host(self):
        return self._core is None and self._first is None

    def numpy(self):
        if self._host is None:
            self._host = _engine.download(self.core)
            if self._host.ndim:
                self._host.flags.writeable = False
        return self._host if self._host.ndim else self._host[()]

    def host_array(self):
        """The numbers as an array, also of a scalar; not to be written to."""
        self.numpy()
        return self._host

    # What it is.

    @property
    def dtype(self):
        if self._label is not None:
            return self._label
        if self._host is not None and self._core is None and self._first is None:
            return _types.as_dtype(self._host.dtype)
        return _types.OF_ENGINE[_engine.dtype(self._core if self._core is not None else self._first)]

    @property
    def _sizes(self):
        if self._host is not None:
            return self._host.shape
        if self._core is not None:
            return _engine.shape(self._core)
        sizes = _engine.shape(self._first)
        return tuple(sizes[axis] for axis in _TO_LAST[len(sizes)])

    @property
    def shape(self):
        return TensorShape(self._sizes)

    def get_shape(self):
        return self.shape

    def set_shape(self, shape):
        if not self.shape.is_compatible_with(shape):
            raise ValueError(f"Tensor's shape {self.shape} is not compatible with supplied shape {TensorShape(shape)}")

    @property
    def ndim(self):
        return len(self._sizes)

    @property
    def device(self):
        return "/job:localhost/replica:0/task:0/device:CPU:0"

    @property
    def name(self):
        raise AttributeError("Tensor.name is undefined when eager execution is enabled.")

    @property
    def nbytes(self):
        return self.dtype.size * int(np.prod(self._sizes, dtype=np.int64))

    def ref(self):
        return Reference(self)

    # As Python and NumPy see it.

    def __array__(self, dtype=None, copy=None):
        array = self.host_array()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __float__(self):
        return float(self._single())

    def __int__(self):
        return int(self._single())

    def __complex__(self):
        return complex(self._single())

    def __index__(self):
        array = self.host_array()
        if array.ndim or array.dtype.kind not in "iu":
            raise TypeError("Only integer scalar arrays can be converted to a scalar index")
        return int(array)

    def __bool__(self):
        return bool(self.host_array())

    def _single(self):
        array = self.host_array()
        if array.size != 1:
            raise TypeError("Only scalar arrays can be converted to Python scalars")
        return array.reshape(())[()]

    def item(self):
        return self._single().item()

    def tolist(self):
        return self.host_array().tolist()

    def __len__(self):
        if not self._sizes:
            raise TypeError("Scalar tensor has no `len()`")
        return self._sizes[0]

    def __iter__(self):
        if not self._sizes:
            raise TypeError("Cannot iterate over a scalar tensor.")
        return (self[i] for i in range(self._sizes[0]))

    def __format__(self, spec):
        return format(self.numpy(), spec) if spec else str(self)

    def __repr__(self):
        return f"<tf.Tensor: shape={self.shape}, dtype={self.dtype.name}, numpy={_shown(self, repr)}>"

    def __str__(self):
        return f"tf.Tensor({_shown(self, str)}, shape={self.shape}, dtype={self.dtype.name})"

    def __hash__(self):
        raise TypeError("Tensor is unhashable. Instead, use tensor.ref() as the key.")

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return _from_array, (self.host_array(), self._label)

    def __dlpack__(self, **options):
        return np.ascontiguousarray(self.host_array()).__dlpack__(**options)

    def __dlpack_device__(self):
        return (1, 0)

    def eval(self, feed_dict=None, session=None):
        return self.numpy()

    # Names that arrays have and tensors do not: the message says what to write.
    def __getattr__(self, name):
        if name in ("reshape", "astype", "transpose", "sum", "mean", "max", "min", "T", "ravel", "clip", "size", "data"):
            raise AttributeError(f"EagerTensor object has no attribute '{name}'. Use tf.{_FUNCTIONS.get(name, name)}, "
                                 "or tensor.numpy() for the array")
        raise AttributeError(f"'Tensor' object has no attribute '{name}'")


_FUNCTIONS = {"astype": "cast", "sum": "reduce_sum", "mean": "reduce_mean", "max": "reduce_max", "min": "reduce_min",
              "T": "transpose", "ravel": "reshape", "clip": "clip_by_value", "data": "identity"}


class Reference:
    """A key for dictionaries and sets: equal for the same tensor."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor):
        self._tensor = tensor

    def deref(self):
        return self._tensor

    def __eq__(self, other):
        return isinstance(other, Reference) and self._tensor is other._tensor

    def __hash__(self):
        return id(self._tensor)


def _shown(tensor, how):
    array = tensor.numpy()
    return how(array) if not np.ndim(array) or how is str else np.array2string(array, separator=", ")


def _from_array(array, label=None):
    tensor = Tensor(host=array)
    tensor._label = label
    return tensor


def of_core(core):
    return Tensor(core=core)


def of_first(first):
    return Tensor(first=first)


def of_host(array, label=None):
    """A tensor whose numbers are those of the array, which nobody writes to any more."""
    return _from_array(np.asarray(array), label)
