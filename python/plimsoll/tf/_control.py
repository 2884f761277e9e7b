"""Control flow as functions, tf.function, and what programs wrap their code in."""
import contextlib
import functools
import inspect

import numpy as np

from . import _engine, nest
from ._call import Mode, operator
from ._convert import convert, is_tensor
from ._tensor import of_host
from ._types import TensorSpec


@operator
def cond(pred, true_fn=None, false_fn=None, name=None):
    return true_fn() if bool(convert(pred)) else false_fn()


@operator
def case(pred_fn_pairs, default=None, exclusive=False, strict=False, name="case"):
    pairs = pred_fn_pairs.items() if isinstance(pred_fn_pairs, dict) else pred_fn_pairs
    for pred, function in pairs:
        if bool(pred):
            return function()
    return default()


@operator
def switch_case(branch_index, branch_fns, default=None, name="switch_case"):
    number = int(branch_index)
    functions = dict(branch_fns) if not isinstance(branch_fns, dict) and branch_fns and isinstance(
        branch_fns[0], tuple) else (branch_fns if isinstance(branch_fns, dict) else dict(enumerate(branch_fns)))
    return functions.get(number, default or functions[max(functions)])()


@operator
def while_loop(cond, body, loop_vars, shape_invariants=None, parallel_iterations=10, back_prop=True, swap_memory=False,
               maximum_iterations=None, name=None):
    state, count = nest.map_structure(convert, loop_vars), 0
    is_list = isinstance(state, (list, tuple))
    while (maximum_iterations is None or count < int(maximum_iterations)) and bool(
            cond(*state) if is_list else cond(state)):
        made = body(*state) if is_list else body(state)
        made = made if isinstance(made, (list, tuple)) or not is_list else (made,)
        state = nest.rebuild(state, list(made)) if is_list else made
        state = nest.map_structure(convert, state)
        count += 1
    return state


@operator
def map_fn(fn, elems, dtype=None, parallel_iterations=None, back_prop=True, swap_memory=False, infer_shape=True,
           name=None, fn_output_signature=None):
    elems = nest.map_structure(convert, elems)
    count = nest.flatten(elems)[0].shape[0]
    made = [fn(nest.map_structure(lambda one, i=i: one[i], elems)) for i in range(count)]
    return _stacked(made)


def _stacked(parts):
    from ._array import stack
    return nest.map_structure(lambda *ones: stack(list(ones)), *parts)


def vectorized_map(fn, elems, fallback_to_while_loop=True, warn=True):
    return map_fn(fn, elems)


@operator
def scan(fn, elems, initializer=None, parallel_iterations=10, back_prop=True, swap_memory=False, infer_shape=True,
         reverse=False, name=None):
    parts = _steps(elems, reverse)
    state, made = (initializer, []) if initializer is not None else (parts[0], [parts[0]])
    for part in parts[0 if initializer is not None else 1:]:
        state = fn(state, part)
        made.append(state)
    return _stacked(made[::-1] if reverse else made)


def _steps(elems, reverse):
    elems = nest.map_structure(convert, elems)
    count = nest.flatten(elems)[0].shape[0]
    order = range(count - 1, -1, -1) if reverse else range(count)
    return [nest.map_structure(lambda one, i=i: one[i], elems) for i in order]


@operator
def foldl(fn, elems, initializer=None, parallel_iterations=10, back_prop=True, swap_memory=False, name=None):
    parts = _steps(elems, False)
    state = initializer if initializer is not None else parts.pop(0)
    for part in parts:
        state = fn(state, part)
    return state


@operator
def foldr(fn, elems, initializer=None, parallel_iterations=10, back_prop=True, swap_memory=False, name=None):
    parts = _steps(elems, True)
    state = initializer if initializer is not None else parts.pop(0)
    for part in parts:
        state = fn(state, part)
    return state


def group(*inputs, **kwargs):
    from ._call import Node
    if Mode.graph is None:
        return None
    return Node(lambda *parts: None, tuple(_late_parts(inputs)), {}, kind="group", name=kwargs.get("name") or "group")


def _late_parts(inputs):
    from ._call import Node
    for one in nest.flatten(inputs):
        yield one.outputs if isinstance(one, Node) and one.outputs is not None else one


def no_op(name=None):
    return group()


def tuple_(tensors, name=None, control_inputs=None):
    return list(tensors)


@contextlib.contextmanager
def control_dependencies(control_inputs):
    yield


# tf.function.


class Function:
    """tf.function: the code runs each time, as it is written; what it computes is planned once for each signature."""

    def __init__(self, python_function, input_signature=None, name=None):
        self._function = python_function
        self.python_function = python_function
        self._signature = input_signature
        self._signatures = {}
        functools.update_wrapper(self, python_function)

    def __call__(self, *args, **kwargs):
        key = _signature_of(args, kwargs)
        self._signatures[key] = self._signatures.get(key, 0) + 1
        if self._signature is not None:
            self._expect(args)
            args = tuple(nest.map_structure(_converted, one) for one in args)
        else:
            args = tuple(nest.map_structure(_converted_array, one) for one in args)
        made = self._function(*args, **kwargs)
        return nest.map_structure(_result, made) if made is not None else None

    def _expect(self, args):
        given = nest.flatten(list(args))
        wanted = nest.flatten(list(self._signature))
        for one, spec in zip(given, wanted):
            tensor = convert(one, hint=spec.dtype) if not is_tensor(one) else one
            if isinstance(spec, TensorSpec) and not (spec.shape.is_compatible_with(tensor.shape)
                                                     and spec.dtype == tensor.dtype):
                raise TypeError(f"Binding inputs to tf.function failed due to `Can not cast {TensorSpec.from_tensor(tensor)}"
                                f" to {spec}`")

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        key = "_tf_function_" + self._function.__name__
        bound = instance.__dict__.get(key)
        if bound is None:
            bound = Function(self._function.__get__(instance, owner), self._signature)
            object.__setattr__(instance, key, bound)
        return bound

    def experimental_get_tracing_count(self):
        return len(self._signatures)

    def get_concrete_function(self, *args, **kwargs):
        return self

    def pretty_printed_concrete_signatures(self):
        return "\n".join(str(key) for key in self._signatures)

    @property
    def input_signature(self):
        return self._signature

    def __repr__(self):
        return f"<tf.function {getattr(self._function, '__name__', 'function')}>"


def _converted(value):
    return convert(value) if isinstance(value, (int, float, np.ndarray, np.generic)) else value


def _converted_array(value):
    return convert(value) if isinstance(value, (np.ndarray, np.generic)) else value


def _result(value):
    if isinstance(value, (int, float, np.ndarray, np.generic)) or getattr(value, "is_variable", False):
        return convert(value) if not getattr(value, "is_variable", False) else value.read_value()
    return value


def _signature_of(args, kwargs):
    key = []
    for one in nest.flatten([list(args), dict(kwargs)]):
        if is_tensor(one) or isinstance(one, (np.ndarray, np.generic)):
            key.append((tuple(one.shape), str(one.dtype)))
        else:
            try:
                hash(one)
                key.append(one)
            except TypeError:
                key.append(id(one))
    return tuple(key)


def function(func=None, input_signature=None, autograph=True, jit_compile=None, reduce_retracing=False,
             experimental_implements=None, experimental_autograph_options=None, experimental_attributes=None,
             experimental_relax_shapes=None, experimental_compile=None, experimental_follow_type_hints=None):
    def wrap(python_function):
        return Function(python_function, input_signature)
    return wrap(func) if func is not None else wrap


def py_function(func=None, inp=None, Tout=None, name=None):
    from ._call import record
    made = _called_python(func, *[convert(one) for one in inp]) if not any(
        getattr(one, "is_symbolic", False) for one in inp) else record(_called_python, (func, *inp), {})
    kinds = Tout if isinstance(Tout, (list, tuple)) else [Tout]
    if isinstance(made, (list, tuple)):
        return [convert(one, hint=kind) for one, kind in zip(made, kinds)]
    return None if made is None else convert(made, hint=kinds[0])


def _called_python(func, *inputs):
    return func(*inputs)


def numpy_function(func=None, inp=None, Tout=None, stateful=True, name=None):
    return py_function(lambda *parts: func(*(part.numpy() for part in parts)), inp, Tout)


def custom_gradient(f=None):
    raise NotImplementedError("plimsoll.tf has no tf.custom_gradient: write the function with operators, whose gradients "
                              "are known, and tf.stop_gradient")


def print_(*inputs, **kwargs):
    import sys
    stream = kwargs.get("output_stream", sys.stderr)
    parts = []
    for one in inputs:
        if is_tensor(one):
            array = np.asarray(one)
            parts.append(str(array[()] if array.ndim == 0 else np.array2string(array, edgeitems=3, threshold=8)))
        else:
            parts.append(str(one))
    target = stream if hasattr(stream, "write") else sys.stdout if "stdout" in str(stream) else sys.stderr
    print(kwargs.get("sep", " ").join(parts), end=kwargs.get("end", "\n"), file=target)


class _Scope(contextlib.ContextDecorator):
    """Something that code is put in and that has no meaning here."""

    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        return False


class device(_Scope):
    """Everything runs on the processor, whatever device is named."""

    def __init__(self, device_name=None):
        name = str(device_name or "")
        if "CPU" not in name.upper() and name:
            _engine.note("device", f"tf.device({name!r}): there is no such device here, the code runs on the processor")


class init_scope(_Scope):
    pass


def executing_eagerly():
    return Mode.graph is None


def is_symbolic_tensor(value):
    return bool(getattr(value, "is_symbolic", False))


def arguments_of(function):
    """How many positional arguments a function takes, at most; None: any number."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return None
    return sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters)


def _assertion(name, holds):
    def call(x, y, message=None, summarize=None, name=None):
        a, b = np.asarray(convert(x)), np.asarray(convert(y, hint=convert(x).dtype))
        if not bool(np.all(holds(a, b))):
            from .errors import InvalidArgumentError
            raise InvalidArgumentError(message=f"{message or 'Condition does not hold'}: {a} and {b}")
    call.__name__ = name
    return call


assert_equal = _assertion("assert_equal", np.equal)
assert_less = _assertion("assert_less", np.less)
assert_less_equal = _assertion("assert_less_equal", np.less_equal)
assert_greater = _assertion("assert_greater", np.greater)
assert_greater_equal = _assertion("assert_greater_equal", np.greater_equal)
assert_near = _assertion("assert_near", lambda a, b: np.abs(a - b) <= 1e-5 + 1e-5 * np.abs(b))


def assert_all_finite(x, message, name=None):
    if not bool(np.all(np.isfinite(np.asarray(convert(x))))):
        from .errors import InvalidArgumentError
        raise InvalidArgumentError(message=f"{message} : Tensor had Inf or NaN values")
    return convert(x)


def Assert(condition, data, summarize=None, name=None):
    if not bool(condition):
        from .errors import InvalidArgumentError
        raise InvalidArgumentError(message="assertion failed: " + " ".join(str(np.asarray(one)) for one in data))


def timestamp(name=None):
    import time
    return of_host(np.asarray(time.time(), np.float64))
