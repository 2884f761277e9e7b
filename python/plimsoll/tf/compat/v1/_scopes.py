"""Scopes of variables and names."""
import contextlib

from ..._call import Mode
from ..._types import float32


class _VariableScope:
    """Where get_variable is; without a graph, for the whole program."""

    def __init__(self):
        self.names, self.reuse, self.stored, self.initializer = [], False, {}, None


_eager = _VariableScope()
AUTO_REUSE = "AUTO_REUSE"


class VariableScope:
    def __init__(self, name, reuse):
        self.name, self.reuse = name, reuse
        self.original_name_scope = name + "/"

    def reuse_variables(self):
        _eager.reuse = True


def named(name):
    graph = Mode.graph
    full = "/".join([*_eager.names, name]) if _eager.names else name
    if graph is None:
        return full
    count = graph.counts.get("var:" + full, 0)
    graph.counts["var:" + full] = count + 1
    return full if count == 0 else f"{full}_{count}"


@contextlib.contextmanager
def variable_scope(name_or_scope=None, default_name=None, values=None, initializer=None, regularizer=None,
                   caching_device=None, partitioner=None, custom_getter=None, reuse=None, dtype=None, use_resource=None,
                   constraint=None, auxiliary_name_scope=True):
    name = name_or_scope.name if isinstance(name_or_scope, VariableScope) else name_or_scope or default_name
    before = list(_eager.names), _eager.reuse, _eager.initializer
    _eager.names = name.split("/") if isinstance(name_or_scope, VariableScope) and name else [*_eager.names, name]
    if reuse is not None:
        _eager.reuse = reuse
    if initializer is not None:
        _eager.initializer = initializer
    graph = Mode.graph
    if graph is not None:
        graph.scope.append(name)
    try:
        yield VariableScope("/".join(_eager.names), _eager.reuse)
    finally:
        _eager.names, _eager.reuse, _eager.initializer = before
        if graph is not None:
            graph.scope.pop()


@contextlib.contextmanager
def name_scope(name=None, default_name=None, values=None):
    graph = Mode.graph
    name = name or default_name or "scope"
    if graph is not None:
        graph.scope.append(name)
    try:
        yield name + "/"
    finally:
        if graph is not None:
            graph.scope.pop()


def get_variable_scope():
    return VariableScope("/".join(_eager.names), _eager.reuse)


def get_variable(name, shape=None, dtype=float32, initializer=None, regularizer=None, trainable=True, collections=None,
                 caching_device=None, partitioner=None, validate_shape=True, use_resource=None, custom_getter=None,
                 constraint=None, synchronization=None, aggregation=None):
    """The variable of that name in the scope: made, or found where the scope is for reuse."""
    from ..._variable import Variable
    from ...keras import initializers
    full = "/".join([*_eager.names, name])
    stored = Mode.graph.stored if Mode.graph is not None else _eager.stored
    found = stored.get(full)
    if found is not None:
        if not _eager.reuse:
            raise ValueError(f"Variable {full} already exists, disallowed. Did you mean to set reuse=True or "
                             "reuse=tf.AUTO_REUSE in VarScope?")
        if shape is not None and not found.shape.is_compatible_with(shape):
            raise ValueError(f"Trying to share variable {full}, but specified shape {tuple(shape)} and found shape "
                             f"{found.shape}.")
        return found
    if _eager.reuse is True:
        raise ValueError(f"Variable {full} does not exist, or was not created with tf.get_variable(). Did you mean to set "
                         "reuse=tf.AUTO_REUSE in VarScope?")
    initializer = initializer if initializer is not None else _eager.initializer
    if initializer is None:
        initializer = initializers.GlorotUniform() if getattr(dtype, "is_floating", True) else initializers.Zeros()
    if isinstance(initializer, type):
        initializer = initializer()
    if isinstance(initializer, str):
        initializer = initializers.get(initializer)
    if callable(initializer) and not hasattr(initializer, "dtype"):
        if shape is None:
            raise ValueError(f"Shape of a new variable ({full}) must be fully defined, but instead was <unknown>.")
        try:
            value = initializer(shape, dtype=dtype)
        except TypeError:
            value = initializer(shape)
    else:
        value = initializer
    made = Variable(value, trainable=trainable, name=full, dtype=dtype if not hasattr(value, "dtype") else None,
                    constraint=constraint)
    made._name = full
    stored[full] = made
    return made


def clear_stored():
    _eager.stored.clear()
