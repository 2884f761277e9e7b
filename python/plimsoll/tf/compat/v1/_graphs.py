"""Graphs and sessions of TensorFlow 1: nodes that are noted, and run with values that are fed."""
import contextlib

import numpy as np

from ... import _engine, nest
from ..._call import Mode, Node, Symbolic, evaluate, order_of, placeholder as _placeholder
from ..._convert import IndexedSlices, convert
from ..._tape import gradients_of
from ..._tensor import Tensor
from ..._types import float32


class Graph:
    """What is built before it runs."""

    def __init__(self):
        self.nodes, self.variables, self.collections = [], [], {}
        self.counts, self.scope, self.stored, self.reuse = {}, [], {}, False
        self.seed = None

    def unique_name(self, name):
        full = "/".join([*self.scope, name])
        count = self.counts.get(full, 0)
        self.counts[full] = count + 1
        return full if count == 0 else f"{full}_{count}"

    def add_variable(self, variable):
        self.variables.append(variable)

    @contextlib.contextmanager
    def as_default(self):
        before, Mode.graph = Mode.graph, self
        try:
            yield self
        finally:
            Mode.graph = before

    def get_operations(self):
        return list(self.nodes)

    def get_tensor_by_name(self, name):
        wanted, _, index = name.partition(":")
        for node in self.nodes:
            for i, one in enumerate(nest.flatten(node.outputs)):
                if isinstance(one, Symbolic) and (one.label or node.name) == wanted and i == int(index or 0):
                    return one
        raise KeyError(f"The name '{name}' refers to a Tensor which does not exist.")

    def get_operation_by_name(self, name):
        return next(node for node in self.nodes if node.name == name)

    def get_collection(self, name, scope=None):
        return list(self.collections.get(name, []))

    def add_to_collection(self, name, value):
        self.collections.setdefault(name, []).append(value)

    def finalize(self):
        pass

    def as_graph_def(self):
        raise NotImplementedError("plimsoll.tf writes no GraphDef")

    @property
    def seed_value(self):
        return self.seed


_sessions = []
_default_graph = [None]


def default_graph():
    if Mode.graph is not None:
        return Mode.graph
    if _default_graph[0] is None:
        _default_graph[0] = Graph()
    return _default_graph[0]


def get_default_graph():
    return default_graph()


def reset_default_graph():
    _default_graph[0] = Graph()
    if Mode.graph_by_default:
        Mode.graph = _default_graph[0]


def disable_eager_execution():
    Mode.graph_by_default = True
    Mode.graph = default_graph()


def disable_v2_behavior():
    disable_eager_execution()


def enable_eager_execution(*args, **kwargs):
    Mode.graph_by_default, Mode.graph = False, None


enable_v2_behavior = enable_eager_execution


def enable_resource_variables():
    pass


def get_default_session():
    if not _sessions:
        raise ValueError("Cannot execute operation using `run()`: No default session is registered. Use `with "
                         "sess.as_default()` or pass an explicit session to `run(session=sess)`")
    return _sessions[-1]


def placeholder(dtype, shape=None, name=None):
    if Mode.graph is None:
        raise RuntimeError("tf.placeholder() is not compatible with eager execution.")
    made = _placeholder(shape, dtype, name)
    return made


def placeholder_with_default(input, shape, name=None):
    return convert(input)


class ConfigProto:
    """Settings of a session, which have no meaning here."""

    def __init__(self, **kwargs):
        self.__dict__["kept"] = dict(kwargs)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.__dict__["kept"].setdefault(name, ConfigProto())

    def __setattr__(self, name, value):
        _engine.note("ConfigProto", "the settings of a session (growth of GPU memory and so on) have no meaning here: "
                                    "memory is what the line says")
        self.__dict__["kept"][name] = value


GPUOptions = ConfigProto
OptimizerOptions = ConfigProto


class Session:
    """Runs what a graph holds. Closing it twice, or within its `with`, does nothing more."""

    def __init__(self, target="", graph=None, config=None):
        self.graph = graph if graph is not None else default_graph()
        self._is_closed = False
        self._graph_before = []

    def __enter__(self):
        self._graph_before.append(Mode.graph)
        _sessions.append(self)
        if self.graph.nodes or self.graph.variables or Mode.graph is not None:
            Mode.graph = self.graph
        return self

    def __exit__(self, *raised):
        Mode.graph = self._graph_before.pop()
        if self in _sessions:
            _sessions.remove(self)
        self.close()

    @contextlib.contextmanager
    def as_default(self):
        _sessions.append(self)
        try:
            with self.graph.as_default():
                yield self
        finally:
            _sessions.remove(self)

    def close(self):
        """Gives back what its variables hold."""
        if self._is_closed:
            return
        self._is_closed = True
        for variable in self.graph.variables:
            if getattr(variable, "_started_by", None) is self and variable._core is not None:
                _engine.give_back(variable._core, tuple(variable._shape), variable.trainable)
                variable._core = None

    def list_devices(self):
        return []

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        if self._is_closed:
            raise RuntimeError("Attempted to use a closed Session.")
        before, Mode.graph = Mode.graph, None
        _sessions.append(self)
        try:
            return self._run(fetches, feed_dict or {})
        finally:
            _sessions.pop()
            Mode.graph = before

    def _run(self, fetches, feed_dict):
        values = {}
        for symbol, value in feed_dict.items():
            if isinstance(symbol, str):
                symbol = self.graph.get_tensor_by_name(symbol)
            if not isinstance(symbol, Symbolic):
                raise TypeError(f"Cannot interpret feed_dict key as Tensor: {symbol!r} is no placeholder")
            values[id(symbol)] = _fed(symbol, value)
        wanted = [self._found(one) for one in _leaves(fetches)]
        nodes = [one.node if isinstance(one, Symbolic) else one for one in wanted if isinstance(one, (Symbolic, Node))]
        nodes = [node for node in nodes if node.outputs is None or not all(
            id(one) in values for one in nest.flatten(node.outputs))]
        order = order_of(nodes, values)
        Evaluation(self, order, values).run()
        return _filled(fetches, iter([self._fetched(one, values) for one in wanted]))

    def _found(self, fetch):
        if isinstance(fetch, str):
            return self.graph.get_tensor_by_name(fetch) if ":" in fetch else self.graph.get_operation_by_name(fetch)
        return fetch

    @staticmethod
    def _fetched(one, values):
        if isinstance(one, Node):
            return None
        if isinstance(one, Symbolic):
            if id(one) not in values:
                raise ValueError(f"You must feed a value for placeholder tensor '{one.node.name}' with dtype "
                                 f"{one.dtype.name} and shape {one.shape}")
            made = values[id(one)]
            return made.numpy() if isinstance(made, (Tensor, IndexedSlices)) else made
        if one is None:
            raise TypeError("Fetch argument None has invalid type <class 'NoneType'>")
        if getattr(one, "is_variable", False) or isinstance(one, Tensor):
            return one.numpy()
        raise TypeError(f"Fetch argument {one!r} has invalid type {type(one)}, must be a string or Tensor.")


InteractiveSession = type("InteractiveSession", (Session,), {
    "__init__": lambda self, *args, **kwargs: (Session.__init__(self, *args, **kwargs), _sessions.append(self))[0]})


def _leaves(fetches):
    if isinstance(fetches, dict):
        return [leaf for part in fetches.values() for leaf in _leaves(part)]
    if isinstance(fetches, (list, tuple)):
        return [leaf for part in fetches for leaf in _leaves(part)]
    return [fetches]


def _filled(fetches, values):
    if isinstance(fetches, dict):
        return {key: _filled(part, values) for key, part in fetches.items()}
    if isinstance(fetches, (list, tuple)):
        return nest.rebuild(fetches, [_filled(part, values) for part in fetches])
    return next(values)


def _fed(symbol, value):
    if isinstance(value, Tensor) and value.is_symbolic:
        raise TypeError("The value of a feed cannot be a tf.Tensor object that has no value.")
    array = np.asarray(value)
    if array.dtype.kind in "SUO":
        return convert(value)
    tensor = convert(array.astype(symbol.dtype.as_numpy_dtype, copy=False), symbol.dtype)
    if symbol.pair is not None and not symbol.shape.is_compatible_with(tensor.shape):
        raise ValueError(f"Cannot feed value of shape {tuple(tensor.shape)} for Tensor {symbol.name}, which has shape "
                         f"{symbol.shape}")
    return tensor


class Evaluation:
    """One run: nodes in their order, under a tape where gradients are wanted, updates last."""

    def __init__(self, session, order, values):
        self.session, self.values = session, values
        self.order = order

    def run(self):
        gradients = [node for node in self.order if node.kind == "gradients"]
        late = _after(self.order, {node.number for node in self.order if node.kind in ("gradients", "assign", "update",
                                                                                     "init")})
        first = [node for node in self.order if node.number not in late]
        if gradients:
            self.tape = _engine.tape(True)
            watched = {id(one) for node in gradients for one in node.args[1] if isinstance(one, Symbolic)}
            for node in first:
                evaluate([node], self.values, self._call)
                for one in nest.flatten(node.outputs):
                    if id(one) in watched and id(one) in self.values:
                        self.tape.watch(self.values[id(one)].source)
            for symbol in (one for node in gradients for one in node.args[1] if isinstance(one, Symbolic)):
                if symbol.node.kind == "placeholder":
                    raise NotImplementedError("gradients with respect to a placeholder: make tf.identity of it first")
        else:
            evaluate(first, self.values, self._call)
        evaluate([node for node in self.order if node.number in late], self.values, self._call)
        if gradients:
            self.tape.close()

    def _call(self, node, args, kwargs):
        if node.kind == "gradients":
            ys, xs, seeds = args
            return gradients_of(self.tape, [convert(one) for one in ys], list(xs), seeds)
        if node.kind == "init":
            for variable in node.args[0]:
                _start(variable, self.session)
            return None
        return node.function(*args, **kwargs)


def _after(order, numbers):
    """These nodes and all that need them."""
    found = set(numbers)
    for node in order:
        if node.number not in found and any(symbol.node.number in found for symbol in node.inputs):
            found.add(node.number)
    return found


def _start(variable, session):
    """Gives a variable its first value, once for each run of its initialiser."""
    value = variable._initial
    if isinstance(value, Symbolic):
        values = {}
        order = order_of([value.node])
        for other in {id(one): one for node in order for one in _variables_in((node.args, node.kwargs))}.values():
            if not other._known():
                _start(other, session)
        evaluate(order, values)
        value = values[id(value)]
    if value is not None:
        variable._start(value)
        variable._started_by = session


def _variables_in(value):
    if getattr(value, "is_variable", False):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _variables_in(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from _variables_in(part)


def variables_initializer(var_list, name="init"):
    kept = [one for one in var_list if getattr(one, "_initial", None) is not None]
    node = Node(lambda: None, (), {}, kind="init", name=name)
    node.args = (kept,)
    node.inputs_cache = []
    return node


def global_variables_initializer():
    """Starts all variables of the graph; nothing where there are none."""
    return variables_initializer(default_graph().variables)


def local_variables_initializer():
    return variables_initializer([])


initialize_all_variables = global_variables_initializer


def tables_initializer(name="init_all_tables"):
    return variables_initializer([])


def global_variables(scope=None):
    return [one for one in default_graph().variables if scope is None or one.name.startswith(scope)]


def trainable_variables(scope=None):
    return [one for one in global_variables(scope) if one.trainable]


def gradients(ys, xs, grad_ys=None, name="gradients", **kwargs):
    ys_list = ys if isinstance(ys, (list, tuple)) else [ys]
    xs_list = xs if isinstance(xs, (list, tuple)) else [xs]
    node = Node(None, (list(ys_list), list(xs_list), grad_ys), {}, kind="gradients", name=name)
    outputs = []
    for one in xs_list:
        from ..._call import pair_of
        pair = one.pair if isinstance(one, Symbolic) else pair_of(one.shape)
        outputs.append(Symbolic(node, pair, float32))
    node.outputs = outputs
    return outputs


