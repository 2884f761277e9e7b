"""Layers with the words and defaults of Keras, and the base of a program's own ones."""

from __future__ import annotations

import inspect
import weakref
from typing import Any, Callable

from . import _plimsoll
from ._plimsoll import Init as _Init
from ._plimsoll import Layer as Layer
from ._plimsoll import Tensor
from ._plimsoll.layers import *  # noqa: F403

from .functions import _flatten


class _Weight:
    """A weight of a layer's own: stands on the layer until it is called, when a variable takes its place."""

    def __init__(self, name: str, shape: Any, initializer: _Init | str, trainable: bool) -> None:
        self.name, self.shape, self.initializer, self.trainable = name, shape, initializer, trainable


def _add_weight(
    self: Layer,
    name: str = "weight",
    shape: Any = (),
    initializer: _Init | str = "glorot_uniform",
    trainable: bool = True,
) -> Any:
    """A weight of this layer, to be kept on self: self.kernel = self.add_weight("kernel", (4, 8)).

    It is a tensor while call runs; afterwards layer.weight("kernel") has its numbers.
    """
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if initializer == "glorot_uniform":
        initializer = _Init.glorot_uniform(sizes[0], sizes[-1]) if sizes else "zeros"
    return _Weight(name, sizes, initializer, trainable)


def _first_tensor(value: Any) -> Tensor:
    tensors: list[Tensor] = []
    _flatten(value, tensors, [])
    if not tensors:
        raise TypeError("a layer must be called with at least one tensor")
    return tensors[0]


class _Variables:
    """Puts variables of the graph in the place of a layer's weights while its call runs."""

    def __init__(self, layer: Layer, like: Tensor) -> None:
        self.layer, self.like = layer, like
        self.weights = {key: value for key, value in vars(layer).items() if isinstance(value, _Weight)}

    def __enter__(self) -> None:
        for key, weight in self.weights.items():
            made = _plimsoll.variable(self.like, weight.name, weight.shape, weight.initializer, weight.trainable)
            setattr(self.layer, key, made)

    def __exit__(self, *raised: object) -> None:
        for key, weight in self.weights.items():
            setattr(self.layer, key, weight)


def _takes_training(call: Callable[..., Any]) -> bool:
    parameters = inspect.signature(call).parameters
    return "training" in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())


def _build(self: Layer, inputs: Any) -> None:
    """Makes the engine's model of a layer that is written in Python, at its first call."""
    call = getattr(self, "call", None)
    if call is None:
        raise TypeError(f"{type(self).__name__} has no call(self, inputs)")
    if not self.name:
        self.name = _snake(type(self).__name__)
    kind = "one"
    if isinstance(inputs, dict):
        kind, names = "dict", list(inputs)
        given = list(inputs.values())
    elif isinstance(inputs, (list, tuple)):
        kind, names = "list", [f"input_{i}" for i in range(len(inputs))]
        given = list(inputs)
    else:
        names, given = ["input"], [inputs]
    build = getattr(self, "build", None)
    if callable(build):
        shapes = [tuple(one.shape) if isinstance(one, Tensor) else _plimsoll.tensor(one).shape for one in given]
        build(shapes[0] if len(shapes) == 1 else shapes)
    takes_training = _takes_training(call)
    layer = weakref.ref(self)
    shape: list[Any] = []

    def run(by_name: dict[str, Tensor], training: bool) -> list[Tensor]:
        own = layer()
        if own is None:
            raise ReferenceError("the layer of this model does not exist any more")
        arguments: Any = dict(by_name) if kind == "dict" else list(by_name.values())
        if kind == "one":
            arguments = arguments[0]
        with _Variables(own, next(iter(by_name.values()))):
            result = own.call(arguments, training=training) if takes_training else own.call(arguments)  # type: ignore[attr-defined]
        tensors: list[Tensor] = []
        shape[:] = [_flatten(result, tensors, [])]
        return tensors

    probe = _plimsoll.probe(names, given, run)
    result = shape[0]
    if isinstance(result, dict):
        outputs = list(result)
    elif probe == 1:
        outputs = ["output"]
    else:
        outputs = [f"output_{i}" for i in range(probe)]
    self._set_model(_plimsoll.Model(self.name, names, outputs, run), isinstance(result, dict))


def _snake(name: str) -> str:
    return "".join(("_" if i and c.isupper() and not name[i - 1].isupper() else "") + c.lower() for i, c in enumerate(name))


class Lambda(Layer):
    """A function of tensors as a layer."""

    def __init__(self, function: Callable[[Any], Any], name: str = "lambda") -> None:
        super().__init__(name=name)
        self.function = function

    def call(self, inputs: Any) -> Any:
        return self.function(inputs)


class Add(Layer):
    """The sum of its inputs."""

    def __init__(self, name: str = "add") -> None:
        super().__init__(name=name)

    def call(self, inputs: list[Tensor]) -> Tensor:
        total = inputs[0]
        for one in inputs[1:]:
            total = total + one
        return total


class Multiply(Layer):
    """The product of its inputs."""

    def __init__(self, name: str = "multiply") -> None:
        super().__init__(name=name)

    def call(self, inputs: list[Tensor]) -> Tensor:
        total = inputs[0]
        for one in inputs[1:]:
            total = total * one
        return total


class Concatenate(Layer):
    """Its inputs joined along an axis."""

    def __init__(self, axis: int = -1, name: str = "concatenate") -> None:
        super().__init__(name=name)
        self.axis = axis

    def call(self, inputs: list[Tensor]) -> Tensor:
        return _plimsoll.ops.concat(inputs, self.axis)


class Reshape(Layer):
    """Each sample under another shape."""

    def __init__(self, target_shape: Any, name: str = "reshape") -> None:
        super().__init__(name=name)
        self.target_shape = tuple(target_shape)

    def call(self, inputs: Tensor) -> Tensor:
        return _plimsoll.ops.reshape(inputs, (inputs.shape[0], *self.target_shape))


class ReLU(Layer):
    """max(x, 0)."""

    def __init__(self, name: str = "re_lu") -> None:
        super().__init__(name=name)

    def call(self, inputs: Tensor) -> Tensor:
        return _plimsoll.ops.relu(inputs)


class Softmax(Layer):
    """exp(x) over its sum along an axis."""

    def __init__(self, axis: int = -1, name: str = "softmax") -> None:
        super().__init__(name=name)
        self.axis = axis

    def call(self, inputs: Tensor) -> Tensor:
        return _plimsoll.ops.softmax(inputs, self.axis)


class Rescaling(Layer):
    """scale x + offset, as floats."""

    def __init__(self, scale: float, offset: float = 0.0, name: str = "rescaling") -> None:
        super().__init__(name=name)
        self.scale, self.offset = scale, offset

    def call(self, inputs: Tensor) -> Tensor:
        return inputs.astype("float32") * self.scale + self.offset
