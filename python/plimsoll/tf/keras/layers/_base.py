"""keras.layers.Layer: weights, building at the first call, training and inference, masks, losses."""
import functools
import inspect

import numpy as np

from ... import _types, nest
from ..._call import Mode, Symbolic, record
from ..._convert import convert, is_tensor
from ..._elementwise import cast
from ..._tensor import Tensor, of_host
from ..._types import TensorShape, as_dtype
from ..._variable import Variable
from .. import constraints, initializers, regularizers
from .._state import DTypePolicy, Training, policy, snake_case, state, unique_name


class KerasVariable(Variable):
    """A weight of a layer."""

    def __init__(self, initial_value, trainable=True, dtype=None, name=None, path=None, regularizer=None,
                 constraint=None):
        graph, Mode.graph = Mode.graph, None  # weights of layers have their numbers at once
        try:
            super().__init__(initial_value, trainable=True if trainable else False, name=name or "variable", dtype=dtype,
                             constraint=constraint)
        finally:
            Mode.graph = graph
        self.path = path or self._name
        self.regularizer = regularizer

    @property
    def name(self):
        return self._name

    @property
    def value(self):
        return self.read_value()

    def __repr__(self):
        return f"<Variable path={self.path}, shape={self.shape}, dtype={self.dtype.name}, value={self.numpy()}>"


@functools.lru_cache(maxsize=None)
def call_parameters(kind):
    try:
        parameters = inspect.signature(kind.call).parameters
    except (TypeError, ValueError):
        return frozenset(), None
    names = [name for name in parameters if name != "self"]
    first = names[0] if names else None
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        names += ["**"]
    return frozenset(names), first


class Layer:
    """A function with weights."""

    supports_masking = False
    _is_layer = True

    def __new__(cls, *args, **kwargs):
        layer = object.__new__(cls)
        for name, value in (("_layers", []), ("_trainable_variables", []), ("_non_trainable_variables", []),
                            ("_metrics", []), ("_added", []), ("built", False), ("_init", (args, kwargs)),
                            ("_trainable", True), ("_build_shape", None), ("_nodes", [])):
            object.__setattr__(layer, name, value)
        return layer

    def __init__(self, *, activity_regularizer=None, trainable=True, dtype=None, autocast=True, name=None, **kwargs):
        if "_name" not in self.__dict__:
            self._name = name or unique_name(snake_case(type(self).__name__))
        elif name:
            self._name = name
        self._trainable = bool(trainable)
        self.dtype_policy = dtype if isinstance(dtype, DTypePolicy) else DTypePolicy(dtype) if dtype is not None \
            else policy()
        self.activity_regularizer = regularizers.get(activity_regularizer)
        self.autocast = autocast
        self.input_spec = None
        shape = kwargs.pop("input_shape", None)
        if shape is None and "input_dim" in kwargs:
            shape = (kwargs.pop("input_dim"),)
        batch_shape = kwargs.pop("batch_input_shape", None) or kwargs.pop("batch_shape", None)
        kwargs.pop("input_dim", None)
        kwargs.pop("batch_size", None)
        kwargs.pop("dynamic", None)
        weights = kwargs.pop("weights", None)
        self._given_shape = tuple(batch_shape) if batch_shape is not None else (
            None if shape is None else (None,) + tuple(TensorShape(shape)))
        self._given_weights = weights
        if kwargs:
            raise TypeError(f"Unrecognized keyword arguments passed to {type(self).__name__}: {kwargs}")

    # Names and types.

    @property
    def name(self):
        return self.__dict__.get("_name") or snake_case(type(self).__name__)

    @name.setter
    def name(self, value):
        self._name = value

    @property
    def path(self):
        return self.name

    @property
    def dtype(self):
        return self._policy().variable_dtype

    variable_dtype = dtype

    @property
    def compute_dtype(self):
        return self._policy().compute_dtype

    def _policy(self):
        return self.__dict__.get("dtype_policy") or policy()

    # Attributes that are layers, variables and metrics belong to the layer.

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        if not name.startswith("_tf_function_"):
            self._track(value)

    def _track(self, value):
        if isinstance(value, Variable):
            kept = self._trainable_variables if value.trainable else self._non_trainable_variables
            if not any(one is value for one in kept):
                kept.append(value)
        elif getattr(value, "_is_layer", False):
            if value is not self and not any(one is value for one in self._layers):
                self._layers.append(value)
        elif getattr(value, "_is_metric", False):
            if not any(one is value for one in self._metrics):
                self._metrics.append(value)
        elif isinstance(value, (list, tuple)):
            for part in value:
                if isinstance(part, (Variable, list, tuple)) or getattr(part, "_is_layer", False):
                    self._track(part)
        elif isinstance(value, dict):
            for part in value.values():
                if isinstance(part, (Variable, list, tuple)) or getattr(part, "_is_layer", False):
                    self._track(part)

    # Weights.

    def add_weight(self, shape=None, initializer=None, dtype=None, trainable=True, autocast=True, regularizer=None,
                   constraint=None, aggregation="none", overwrite_with_gradient=False, name=None, **kwargs):
        if isinstance(shape, str):  # as Keras 2 had it: the name first
            shape, name = (initializer if isinstance(initializer, (tuple, list, TensorShape)) else None), shape
            initializer = None
        shape = tuple(TensorShape(() if shape is None else shape))
        kind = as_dtype(dtype or self.variable_dtype)
        if initializer is None:
            initializer = "glorot_uniform" if kind.is_floating else "zeros"
        make = initializers.get(initializer)
        before, Mode.graph = Mode.graph, None
        try:
            first = convert(make(shape, dtype=kind) if not isinstance(make, Tensor) else make, hint=kind)
        finally:
            Mode.graph = before
        name = name or "variable"
        variable = KerasVariable(first, trainable, kind, name, f"{self.path}/{name}", regularizers.get(regularizer),
                                 constraints.get(constraint))
        self._track(variable)
        return variable

    def add_variable(self, *args, **kwargs):
        return self.add_weight(*args, **kwargs)

    @property
    def trainable(self):
        return self._trainable

    @trainable.setter
    def trainable(self, value):
        object.__setattr__(self, "_trainable", bool(value))
        for layer in self._layers:
            layer.trainable = value

    def _own_layers(self):
        return self._layers

    def _walk(self):
        """Itself and all layers within, each once."""
        seen, stack, found = set(), [self], []
        while stack:
            layer = stack.pop()
            if id(layer) in seen:
                continue
            seen.add(id(layer))
            found.append(layer)
            stack.extend(reversed(layer._own_layers()))
        return found

    @property
    def weights(self):
        return _once(one for layer in self._walk() for one in layer._trainable_variables + layer._non_trainable_variables)

    variables = weights

    @property
    def trainable_weights(self):
        return _once(one for layer in self._walk() if layer._trainable and self._trainable
                     for one in layer._trainable_variables)

    trainable_variables = trainable_weights

    @property
    def non_trainable_weights(self):
        trained = {id(one) for one in self.trainable_weights}
        return [one for one in self.weights if id(one) not in trained]

    non_trainable_variables = non_trainable_weights

    def get_weights(self):
        return [np.array(one.numpy()) for one in self.weights]

    def set_weights(self, weights):
        own = self.weights
        if len(own) != len(weights):
            raise ValueError(f"You called `set_weights(weights)` on layer '{self.name}' with a weight list of length "
                             f"{len(weights)}, but the layer was expecting {len(own)} weights.")
        for variable, value in zip(own, weights):
            if tuple(variable.shape) != np.shape(value):
                raise ValueError(f"Layer {self.name} weight shape {tuple(variable.shape)} is not compatible with "
                                 f"provided weight shape {np.shape(value)}.")
            _changed_now(variable, value)

    def count_params(self):
        if not self.built:
            raise ValueError(f"You tried to call `count_params` on layer '{self.name}', but the layer isn't built. You "
                             f"can build it manually via: `layer.build(input_shape)`.")
        return sum(int(np.prod(one.shape.as_list(), dtype=np.int64)) for one in self.weights)

    # Losses.

    def add_loss(self, losses):
        for one in nest.flatten(losses):
            self._added.append(one)

    @property
    def losses(self):
        found = [one() if callable(one) and not is_tensor(one) else one for layer in self._walk() for one in layer._added]
        for variable in self.trainable_weights:
            if getattr(variable, "regularizer", None) is not None:
                found.append(variable.regularizer(variable))
        return found

    def _clear_losses(self):
        for layer in self._walk():
            layer._added.clear()

    # Calls.

    def build(self, input_shape=None):
        self.built = True

    def call(self, inputs, *args, **kwargs):
        raise NotImplementedError(f"Layer {type(self).__name__} does not have a `call()` method implemented.")

    def __call__(self, *args, **kwargs):
        names, first = call_parameters(type(self))
        if not args and first in kwargs:
            args = (kwargs.pop(first),)
        training = kwargs.get("training", None)
        if training is None:
            training = state.training
            kwargs.pop("training", None)
        args = tuple(nest.map_structure(self._input, one) if nest.is_nested(one) else self._input(one) for one in args)
        late = _has_symbol(args) or _has_symbol(kwargs)
        if not self.built:
            self._build_for(args, kwargs)
        if late:
            return self._later(args, kwargs, training)
        if "training" in names and "training" not in kwargs and training is not None:
            kwargs["training"] = training
        elif "training" in kwargs and "training" not in names and "**" not in names:
            kwargs.pop("training")
        mask = self._mask_of(args[0]) if args and self._takes_masks(names, kwargs) else None
        if mask is not None and "mask" in names:
            kwargs["mask"] = mask
        with Training(training):
            outputs = self.call(*args, **kwargs)
        outputs = self._finished(outputs, args[0] if args else None, mask)
        return outputs

    def _takes_masks(self, names, kwargs):
        return ("mask" in names and kwargs.get("mask") is None) or self.supports_masking

    def _mask_of(self, inputs):
        if isinstance(inputs, Tensor):
            return inputs._keras_mask
        if isinstance(inputs, (list, tuple)):
            masks = [getattr(one, "_keras_mask", None) for one in inputs]
            return masks if any(one is not None for one in masks) else None
        return None

    def compute_mask(self, inputs, previous_mask):
        return previous_mask

    def _finished(self, outputs, inputs, mask):
        if self.activity_regularizer is not None:
            for one in nest.flatten(outputs):
                self.add_loss(self.activity_regularizer(one) / float(one.shape[0]))
        kind = as_dtype(self.compute_dtype)
        if kind.name in ("float16", "bfloat16") and self.autocast and not self._own_layers():
            outputs = nest.map_structure(
                lambda one: cast(one, kind) if isinstance(one, Tensor) and one.dtype.is_floating else one, outputs)
        if self.supports_masking and isinstance(outputs, Tensor):
            made = self.compute_mask(inputs, mask)
            if made is not None and outputs._keras_mask is None:
                outputs._keras_mask = made
        return outputs

    def _input(self, value):
        if value is None or isinstance(value, (str, bytes)):
            return value
        if isinstance(value, Symbolic):
            return value
        if not is_tensor(value) and not isinstance(value, (np.ndarray, np.generic, int, float, bool)) \
                and not hasattr(value, "__array__"):
            return value
        mask = getattr(value, "_keras_mask", None)
        tensor = convert(value)
        if self.autocast and tensor.dtype.is_floating and tensor.dtype.name != "float32" \
                and self.compute_dtype in ("float32", "float16", "bfloat16"):
            tensor = cast(tensor, _types.float32)
            tensor._keras_mask = mask
        return tensor

    def _build_for(self, args, kwargs):
        shapes = nest.map_structure(_shape_of, args[0]) if args else None
        if isinstance(shapes, list):
            shapes = list(shapes)
        self._build_shape = shapes
        self._ensure_init()
        before, Mode.graph = Mode.graph, None
        try:
            self.build(shapes)
        finally:
            Mode.graph = before
        self.built = True
        if self.__dict__.get("_given_weights") is not None:
            self.set_weights(self._given_weights)
            self._given_weights = None

    def _ensure_init(self):
        if "dtype_policy" not in self.__dict__:
            raise RuntimeError(f"In layer '{type(self).__name__}', you forgot to call `super().__init__()` as the first "
                               "statement in the `__init__()` method. Go add it!")

    def _later(self, args, kwargs, training):
        """In a functional model, or in a graph of tf.compat.v1: noted."""
        if training is not None:
            kwargs = dict(kwargs, training=training)
        outputs = record(self, args, kwargs, kind="layer", name=self.name)
        node = nest.flatten(outputs)[0].node
        self._nodes.append(node)
        return outputs

    def compute_output_shape(self, *args, **kwargs):
        shapes = args[0] if args else next(iter(kwargs.values()))
        from ..._call import placeholder
        made = self(nest.map_structure(lambda one: placeholder(one, self.compute_dtype), shapes)
                    if _is_list_of_shapes(shapes) else placeholder(shapes, self.compute_dtype))
        return nest.map_structure(lambda one: tuple(one.shape), made)

    # What was called with what, in functional models.

    @property
    def input(self):
        self._expect_node()
        found = self._nodes[0].args[0]
        return found

    @property
    def output(self):
        self._expect_node()
        return self._nodes[0].outputs

    def _expect_node(self):
        if not self._nodes:
            raise AttributeError(f"The layer {self.name} has never been called and thus has no defined input or output.")

    @property
    def input_shape(self):
        return tuple(self.input.shape)

    @property
    def output_shape(self):
        return nest.map_structure(lambda one: tuple(one.shape), self.output)

    # Configurations.

    def get_config(self):
        config = {"name": self.name, "trainable": self.trainable, "dtype": self._policy().name}
        kind = type(self)
        args, kwargs = self._init
        try:
            bound = inspect.signature(kind.__init__).bind(self, *args, **kwargs)
        except TypeError:
            return config
        for name, value in list(bound.arguments.items())[1:]:
            parameter = inspect.signature(kind.__init__).parameters[name]
            if parameter.kind is parameter.VAR_KEYWORD:
                config.update({key: one for key, one in value.items() if key not in config})
            elif parameter.kind is not parameter.VAR_POSITIONAL:
                config[name] = value
        return config

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    def __repr__(self):
        return f"<{type(self).__name__} name={self.name}, built={self.built}>"

    def __getstate__(self):
        state = dict(self.__dict__)
        state["_nodes"] = []
        return state

    def stateless_call(self, *args, **kwargs):
        raise NotImplementedError("stateless_call is for JAX; call the layer")


def _once(variables):
    seen, found = set(), []
    for one in variables:
        if id(one) not in seen:
            seen.add(id(one))
            found.append(one)
    return found


def _changed_now(variable, value):
    from ..._variable import _changed
    graph, Mode.graph = Mode.graph, None
    try:
        _changed(variable, "assign", of_host(np.asarray(value, variable.dtype.as_numpy_dtype)))
    finally:
        Mode.graph = graph


def _shape_of(one):
    return tuple(one.shape) if hasattr(one, "shape") else None


def _has_symbol(value):
    if isinstance(value, Tensor):
        return value.is_symbolic
    if isinstance(value, (list, tuple)):
        return any(_has_symbol(part) for part in value)
    if isinstance(value, dict):
        return any(_has_symbol(part) for part in value.values())
    return False


def _is_list_of_shapes(shapes):
    return isinstance(shapes, (list, tuple)) and bool(shapes) and isinstance(shapes[0], (list, tuple, TensorShape))


class InputSpec:
    """What a layer expects of its input."""

    def __init__(self, dtype=None, shape=None, ndim=None, max_ndim=None, min_ndim=None, axes=None,
                 allow_last_axis_squeeze=False, name=None, optional=False):
        self.dtype, self.shape, self.ndim = dtype, shape, ndim
        self.max_ndim, self.min_ndim, self.axes = max_ndim, min_ndim, axes or {}
