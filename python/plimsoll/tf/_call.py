"""Operators on values that exist, and on those that do not yet: placeholders and the inputs of functional models.

A Symbolic stands for a value to come. An operator that is given one is not run but noted as a Node; `evaluate` runs
nodes once the values are there. What shape the result will have is found by calling the operator on zeros, twice where
a size is unknown: sizes that differ between the two calls stay unknown.
"""
import functools
import itertools

import numpy as np

from . import nest
from ._tensor import Tensor, of_host
from ._types import TensorShape, as_dtype

_serial = itertools.count()
_BATCHES = (2, 3)     # for an unknown first size
_LENGTHS = (48, 64)   # for any other unknown size


class Mode:
    """What holds for the whole program."""

    any_symbols = False  # a Symbolic was ever made: operators have to look for them
    graph = None         # the graph that is being built, under tf.compat.v1; None: code runs at once
    graph_by_default = False
    probing = False      # an operator is called on zeros, to see the shape of its result


class Node:
    """A call to come."""

    __slots__ = ("function", "args", "kwargs", "number", "outputs", "name", "graph", "kind", "inputs_cache")

    def __init__(self, function, args, kwargs, kind="call", name=None):
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.number = next(_serial)
        self.kind = kind
        self.graph = Mode.graph
        self.outputs = None
        self.inputs_cache = None
        self.name = name or getattr(function, "__name__", kind)
        if self.graph is not None:
            self.name = self.graph.unique_name(self.name)
            self.graph.nodes.append(self)

    @property
    def inputs(self):
        if self.inputs_cache is None:
            self.inputs_cache = list(symbols_in((self.args, self.kwargs)))
        return self.inputs_cache

    @property
    def type(self):
        return self.kind

    def run(self, feed_dict=None, session=None):
        from .compat.v1 import get_default_session
        (session or get_default_session()).run(self, feed_dict)

    def __repr__(self):
        return f"<tf.Operation '{self.name}' type={self.kind}>"


class Symbolic(Tensor):
    """A value to come."""

    __slots__ = ("node", "pair", "_type", "probe", "history", "label")
    is_symbolic = True

    def __init__(self, node, pair, dtype, probe=None):
        super().__init__()
        Mode.any_symbols = True
        self.node = node
        self.pair = pair      # its sizes in the two calls on zeros; None: not known at all
        self._type = dtype
        self.probe = probe    # values in these calls, where shapes are made of them
        self.history = None   # (layer, inputs) of a functional model
        self.label = None

    @property
    def core(self):
        raise RuntimeError(f"{self!r} has no value yet: run it in a session with its placeholders fed, or call the "
                           "model on values")

    first = source = core

    def numpy(self):
        raise NotImplementedError(f"numpy() is only available when eager execution is enabled; {self!r} has no value yet")

    def __array__(self, dtype=None, copy=None):
        raise NotImplementedError(f"Cannot convert a symbolic tf.Tensor ({self.name}) to a numpy array.")

    def eval(self, feed_dict=None, session=None):
        from .compat.v1 import get_default_session
        return (session or get_default_session()).run(self, feed_dict)

    @property
    def dtype(self):
        return self._type

    @property
    def _sizes(self):
        return sizes_of(self.pair)

    @property
    def shape(self):
        return TensorShape(sizes_of(self.pair) if self.pair is not None else None)

    def set_shape(self, shape):
        shape = TensorShape(shape)
        if self.pair is None:
            self.pair = pair_of(shape)

    @property
    def name(self):
        outputs = nest.flatten(self.node.outputs)
        index = next((i for i, output in enumerate(outputs) if output is self), 0)
        return f"{self.label or self.node.name}:{index}"

    @property
    def op(self):
        return self.node

    @property
    def graph(self):
        return self.node.graph

    def __bool__(self):
        raise TypeError("Using a symbolic `tf.Tensor` as a Python `bool` is not allowed; use tf.where or tf.cond")

    def __iter__(self):
        sizes = self._sizes
        if not sizes or sizes[0] is None:
            raise TypeError("Cannot iterate over a symbolic tensor whose first size is unknown")
        return (self[i] for i in range(sizes[0]))

    def __float__(self):
        raise TypeError("float() argument must be a value, not a symbolic tf.Tensor")

    __int__ = __index__ = __float__

    def __hash__(self):
        return id(self)

    def __repr__(self):
        return f"<tf.Tensor '{self.name}' shape={self.shape} dtype={self.dtype.name}>"

    __str__ = __repr__

    def __reduce__(self):
        raise TypeError("a symbolic tensor can't be pickled: it has no value")


def sizes_of(pair):
    a, b = pair
    return tuple(x if x == y else None for x, y in zip(a, b))


def pair_of(shape):
    sizes = TensorShape(shape)
    if sizes.rank is None:
        return None
    return tuple(tuple((_BATCHES if axis == 0 else _LENGTHS)[which] if size is None else size
                       for axis, size in enumerate(sizes)) for which in (0, 1))


def placeholder(shape, dtype, name=None, kind="placeholder"):
    node = Node(None, (), {}, kind=kind, name=name or kind.capitalize())
    node.outputs = Symbolic(node, pair_of(shape), as_dtype(dtype))
    return node.outputs


def zeros_like_symbol(symbol, which):
    """Zeros of its type and of the sizes of one of the two calls."""
    if symbol.probe is not None:
        return symbol.probe[which]
    sizes = symbol.pair[which]
    if symbol.dtype.name == "string":
        return of_host(np.full(sizes, b"", object))
    return of_host(np.zeros(sizes, symbol.dtype.as_numpy_dtype), None if symbol.dtype.name != "bfloat16"
                   else symbol.dtype)


def symbols_in(value):
    if isinstance(value, Symbolic):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from symbols_in(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from symbols_in(part)
    elif isinstance(value, slice):
        yield from symbols_in((value.start, value.stop, value.step))


def _is_late(value):
    """Whether a value depends on what is not there yet."""
    if isinstance(value, Tensor):
        return value.is_symbolic
    if isinstance(value, (list, tuple)):
        return any(_is_late(part) for part in value)
    if isinstance(value, dict):
        return any(_is_late(part) for part in value.values())
    if isinstance(value, slice):
        return _is_late(value.start) or _is_late(value.stop) or _is_late(value.step)
    return Mode.graph is not None and getattr(value, "is_variable", False)


def replace(value, find):
    """The same structure with each Symbolic replaced by find(symbol)."""
    if isinstance(value, Symbolic):
        return find(value)
    if isinstance(value, (list, tuple)):
        return nest.rebuild(value, [replace(part, find) for part in value])
    if isinstance(value, dict):
        return {key: replace(part, find) for key, part in value.items()}
    if isinstance(value, slice):
        return slice(*(replace(part, find) for part in (value.start, value.stop, value.step)))
    return value


def record(function, args, kwargs, outputs=None, kind="call", name=None):
    """Notes a call; its results are symbols. `outputs`: what it gives, where that is known without calling it."""
    graph, symbols = Mode.graph, list(symbols_in((args, kwargs)))
    node = Node(function, args, kwargs, kind=kind, name=name)
    if outputs is None:
        if any(symbol.pair is None for symbol in symbols):
            unknown = Symbolic(node, None, symbols[0].dtype)
            node.outputs = unknown
            return unknown
        Mode.graph, probed, Mode.probing = None, Mode.probing, True
        try:
            made = []
            for which in (0, 1):
                if which and all(symbol.pair[0] == symbol.pair[1] and symbol.probe is None for symbol in symbols):
                    made.append(made[0])
                    break
                def find(symbol, which=which):
                    return zeros_like_symbol(symbol, which)
                made.append(function(*replace(args, find), **replace(kwargs, find)))
        finally:
            Mode.graph, Mode.probing = graph, probed
        outputs = _symbols_of(node, made)
    node.outputs = outputs
    return outputs


def _symbols_of(node, made):
    def symbol(a, b):
        if not isinstance(a, Tensor):
            return a
        probe = None
        if a.is_on_host and a.dtype.is_integer and a.ndim <= 1:
            if not np.array_equal(a.host_array(), b.host_array()) or a.host_array().size:
                probe = (a, b)
        return Symbolic(node, (tuple(a._sizes), tuple(b._sizes)), a.dtype, probe)
    return nest.map_structure(symbol, *made)


def operator(function):
    """A function over tensors that also takes those that have no value yet."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        if (Mode.any_symbols or Mode.graph is not None) and (_is_late(args) or _is_late(kwargs)):
            return record(function, args, kwargs)
        return function(*args, **kwargs)

    return call


def source(function):
    """A function without tensors that gives others each time: under tf.compat.v1 it runs with each session.run."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        if Mode.graph is not None:
            return record(function, args, kwargs)
        return function(*args, **kwargs)

    return call


def order_of(wanted, known=()):
    """The nodes that the wanted nodes need, in an order in which they can run."""
    needed, seen, stack = [], set(), [node for node in wanted]
    while stack:
        node = stack.pop()
        if node.number in seen:
            continue
        seen.add(node.number)
        needed.append(node)
        stack.extend(symbol.node for symbol in node.inputs if id(symbol) not in known)
    return sorted(needed, key=lambda node: node.number)


def evaluate(nodes, values, call=None):
    """Runs nodes in their order; `values` maps the id of a symbol to its value, and is filled."""
    def find(symbol):
        try:
            return values[id(symbol)]
        except KeyError:
            raise ValueError(f"You must feed a value for placeholder tensor '{symbol.node.name}' with dtype "
                             f"{symbol.dtype.name} and shape {symbol.shape}") from None

    for node in nodes:
        if node.kind in ("placeholder", "input"):
            continue
        if all(id(symbol) in values for symbol in symbols_in(node.outputs)) and node.outputs is not None:
            continue
        args, kwargs = replace(node.args, find), replace(node.kwargs, find)
        made = call(node, args, kwargs) if call is not None else node.function(*args, **kwargs)
        keep(node.outputs, made, values)
    return values


def keep(outputs, made, values):
    if isinstance(outputs, Symbolic):
        values[id(outputs)] = made
    elif isinstance(outputs, dict):
        for key in outputs:
            keep(outputs[key], made[key], values)
    elif isinstance(outputs, (list, tuple)):
        for output, value in zip(outputs, made):
            keep(output, value, values)
