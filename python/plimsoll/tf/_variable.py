"""tf.Variable: floats in a variable of the engine; whole numbers, truths and text on the host."""
import copy
import itertools

import numpy as np

from . import _engine, _types
from ._call import Mode, Symbolic, record
from ._convert import IndexedSlices, convert
from ._operators import attach, getitem
from ._tensor import Tensor, of_core, of_host
from ._types import TensorShape, as_dtype
from .errors import FailedPreconditionError

_counter = itertools.count()


class Variable:
    """A value that is assigned."""

    is_variable = True
    __array_priority__ = 100

    def __init__(self, initial_value=None, trainable=None, validate_shape=True, caching_device=None, name=None,
                 variable_def=None, dtype=None, import_scope=None, constraint=None, synchronization=None,
                 aggregation=None, shape=None, experimental_enable_variable_lifting=None):
        self._core = self._host = None
        if initial_value is None:
            raise ValueError("Argument `initial_value` must be specified and it can't be None")
        if callable(initial_value) and not isinstance(initial_value, (Tensor, Variable)):
            initial_value = initial_value()
        if isinstance(initial_value, Variable):
            initial_value = initial_value.read_value()
        value = convert(initial_value, dtype if not isinstance(initial_value, Tensor) else None,
                        copies=True) if not isinstance(initial_value, Tensor) else initial_value
        if dtype is not None and as_dtype(dtype) != value.dtype:
            from ._elementwise import cast
            value = cast(value, dtype)
        self.trainable = True if trainable is None else bool(trainable)
        self.constraint = constraint
        self._shape = TensorShape(shape) if shape is not None else value.shape
        self._dtype = value.dtype
        self._set_name(name or "Variable")
        if Mode.graph is not None:
            self._initial = value
            Mode.graph.add_variable(self)
        else:
            self._initial = None
            self._start(value)

    def _set_name(self, name):
        from .compat.v1 import _scopes
        self._name = _scopes.named(name) if Mode.graph is not None else name

    # How it is kept.

    @property
    def _is_engine(self):
        return self._dtype.is_floating and self._shape.is_fully_defined() and 0 not in tuple(self._shape)

    def _make(self):
        self._core = _engine.variable(tuple(self._shape), self.trainable)

    def _start(self, value):
        """Takes its first value."""
        if self._is_engine:
            if self._core is None:
                self._make()
            _engine.assign(self._core, "assign", _as_float(value).core)
            if self._dtype.name != "float32":
                if self._dtype.name == "float64":
                    _engine.note("float64", "float64 is computed as float32")
                    self._dtype = _types.float32
        else:
            self._host = np.array(value.host_array())

    def __del__(self):
        core = getattr(self, "_core", None)
        if core is not None and _engine is not None and _engine.give_back is not None:
            _engine.give_back(core, tuple(self._shape), self.trainable)

    def _read(self):
        """Its value for an operator that is called now."""
        if self._core is not None:
            tensor = of_core(self._core)
            if self._dtype.name in ("float16", "bfloat16"):
                from ._elementwise import cast
                return cast(tensor, self._dtype)
            return tensor
        if self._host is None and Mode.probing:
            return of_host(np.zeros(tuple(self._shape), self._dtype.as_numpy_dtype))
        if self._host is None:
            raise FailedPreconditionError(message=f"Error while reading resource variable {self.name} from Container: "
                                          "localhost. It has no value yet: run its initializer first")
        return of_host(self._host.copy())

    def value(self):
        return self.read_value()

    def read_value(self):
        """Its value now: later assignments do not change what is returned."""
        if Mode.graph is not None:
            return record(_value_of, (self,), {}, outputs=None, name=self._name.split(":")[0] + "/read") \
                if self._known() else self._symbol()
        return _value_of(self)

    def _known(self):
        return self._core is not None or self._host is not None

    def _symbol(self):
        from ._call import Node, pair_of
        node = Node(_value_of, (self,), {}, name="read")
        node.outputs = Symbolic(node, pair_of(self._shape), self._dtype)
        return node.outputs

    def initialized_value(self):
        return self.read_value()

    @property
    def initial_value(self):
        return self._initial

    @property
    def initializer(self):
        from .compat.v1 import variables_initializer
        return variables_initializer([self])

    def numpy(self):
        if self._core is not None:
            return self._read().numpy().copy() if self.shape.rank else self._read().numpy()
        return self._read().numpy()

    def eval(self, session=None):
        from .compat.v1 import get_default_session
        return (session or get_default_session()).run(self)

    def load(self, value, session=None):
        self._start(convert(value, self._dtype))

    # What it is.

    @property
    def dtype(self):
        return self._dtype

    @property
    def shape(self):
        return TensorShape(self._host.shape) if self._host is not None else self._shape

    def get_shape(self):
        return self.shape

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def name(self):
        return self._name if ":" in self._name else self._name + ":0"

    @property
    def device(self):
        return "/job:localhost/replica:0/task:0/device:CPU:0"

    @property
    def core(self):
        return self._read().core

    def ref(self):
        from ._tensor import Reference
        return Reference(self)

    experimental_ref = ref

    # Assignments.

    def _taken(self, value):
        value = convert(value, hint=self._dtype)
        if value.dtype != self._dtype:
            if not (value.dtype.is_floating and self._dtype.is_floating):
                raise ValueError(f"Tensor conversion requested dtype {self._dtype.name} for Tensor with dtype "
                                 f"{value.dtype.name}: {value!r}")
        if not self._shape.is_compatible_with(value.shape):
            raise ValueError(f"Cannot assign value to variable '{self.name}': Shape mismatch.The variable shape "
                             f"{self._shape}, and the assigned value shape {value.shape} are incompatible.")
        return value

    def _change(self, how, value, read_value):
        if Mode.graph is not None:
            return self._late_change(how, value)
        _changed(self, how, value)
        return self

    def _late_change(self, how, value):
        from ._call import Node, pair_of
        node = Node(_changed, (self, how, value), {}, kind="assign", name="Assign")
        node.outputs = Symbolic(node, pair_of(self._shape), self._dtype)
        return node.outputs

    def assign(self, value, use_locking=None, name=None, read_value=True):
        return self._change("assign", value, read_value)

    def assign_add(self, delta, use_locking=None, name=None, read_value=True):
        return self._change("assign_add", delta, read_value)

    def assign_sub(self, delta, use_locking=None, name=None, read_value=True):
        return self._change("assign_sub", delta, read_value)

    def _set_rows(self, rows, values, how):
        x, rows, values = self._read(), convert(rows), convert(values)
        return self.assign(of_core(_engine.op("scatter")(x.core, rows.core, values.core, axis=0, how=how)))

    def scatter_update(self, sparse_delta, use_locking=False, name=None):
        return self._set_rows(sparse_delta.indices, sparse_delta.values, "set")

    def scatter_add(self, sparse_delta, use_locking=False, name=None):
        return self._set_rows(sparse_delta.indices, sparse_delta.values, "add")

    def scatter_sub(self, sparse_delta, use_locking=False, name=None):
        return self._set_rows(sparse_delta.indices, -convert(sparse_delta.values), "add")

    def scatter_nd_update(self, indices, updates, name=None):
        return self.assign(of_core(_engine.op("scatter_nd")(self._read().core, convert(indices).core,
                                                            convert(updates).core, how="set")))

    def scatter_nd_add(self, indices, updates, name=None):
        return self.assign(of_core(_engine.op("scatter_nd")(self._read().core, convert(indices).core,
                                                            convert(updates).core, how="add")))

    # As Python and NumPy see it.

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.numpy(), dtype)

    def __float__(self):
        return float(self._read())

    def __int__(self):
        return int(self._read())

    def __index__(self):
        return self._read().__index__()

    def __bool__(self):
        return bool(self._read())

    def __len__(self):
        return self.shape[0]

    def __iter__(self):
        return iter(self.read_value())

    def __format__(self, spec):
        return format(self.numpy(), spec) if spec else str(self)

    def __hash__(self):
        raise TypeError("Variable is unhashable. Instead, use variable.ref() as the key.")

    def __repr__(self):
        if not self._known():
            return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"
        return (f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}, "
                f"numpy={np.array2string(np.asarray(self.numpy()), separator=', ')}>")

    __str__ = __repr__

    def __deepcopy__(self, memo):
        made = type(self).__new__(type(self))
        made.__dict__.update({key: copy.deepcopy(value, memo) for key, value in self.__dict__.items()
                              if key not in ("_core", "_host")})
        made._core = made._host = None
        made._start(self._read())
        memo[id(self)] = made
        return made

    def __getstate__(self):
        state = dict(self.__dict__)
        state["_core"], state["_host"] = None, self.numpy()
        return state

    def __setstate__(self, state):
        numbers = state.pop("_host")
        self.__dict__.update(state, _host=None)
        self._start(of_host(np.asarray(numbers)))


def _as_float(value):
    if value.dtype.name != "float32":
        from ._elementwise import cast
        return cast(value, _types.float32)
    return value


def _value_of(variable):
    read = variable._read()
    if variable._core is None:
        return read
    # A value of its own: the variable's handle shows what is assigned later.
    return of_core(read.core * 1.0)


def _changed(variable, how, value):
    if isinstance(value, IndexedSlices):
        value = value.to_dense()
    value = variable._taken(value)
    if variable._core is None and variable._host is None:
        if how != "assign":
            variable._read()
        variable._start(value)
    elif variable._core is not None:
        _engine.assign(variable._core, how, _as_float(value).core)
    else:
        numbers = value.host_array()
        if how == "assign_add":
            numbers = variable._host + numbers
        elif how == "assign_sub":
            numbers = variable._host - numbers
        variable._host = np.array(numbers, variable._host.dtype)
    return variable._read()


attach(Variable)
Variable.__getitem__ = lambda self, key: getitem(self, key)
