"""keras.Sequential."""
from ..._call import Symbolic, placeholder, sizes_of
from .._state import floatx
from ..layers._base import Layer
from ..layers._core import InputLayer
from ._model import Model


class Sequential(Model):
    def __init__(self, layers=None, trainable=True, name=None, **kwargs):
        Layer.__init__(self, trainable=trainable, name=name, **kwargs)
        self._first = None
        if layers is not None:
            if not isinstance(layers, (list, tuple)):
                layers = [layers]
            for one in layers:
                self.add(one)

    def add(self, layer, rebuild=True):
        if isinstance(layer, Symbolic) and layer.node.kind == "input":
            layer = layer.node.function
        if not getattr(layer, "_is_layer", False):
            raise ValueError("Only instances of `keras.Layer` can be added to a Sequential model. Received: "
                             f"{layer} (of type {type(layer)})")
        if any(one.name == layer.name for one in self._layers):
            raise ValueError(f"All layers added to a Sequential model should have unique names. Name '{layer.name}' is "
                             "already the name of a layer in this model. Update the `name` argument to pass a unique name.")
        if isinstance(layer, InputLayer):
            if self._first is not None or self._layers:
                raise ValueError(f"Sequential model '{self.name}' has already been configured to use input shape")
            object.__setattr__(self, "_first", layer)
            object.__setattr__(self, "_last", layer.output)
            return
        self._layers.append(layer)
        if self._first is None and len(self._layers) == 1:
            shape = layer.__dict__.get("_given_shape")
            if shape is None and isinstance(layer, Model) and layer.inputs is not None:
                shape = tuple(layer.inputs[0].shape)
            if shape is not None:
                object.__setattr__(self, "_first", InputLayer(batch_shape=shape, dtype=_input_type(layer)))
                object.__setattr__(self, "_last", self._first.output)
        if self._first is not None:
            object.__setattr__(self, "_last", layer(self._last))
            self.built = True
            self._build_shape = tuple(self._first.batch_shape)

    _last = None

    def pop(self, rebuild=True):
        layer = self._layers.pop()
        if self._first is not None:
            object.__setattr__(self, "_last", self._layers[-1].output if self._layers else self._first.output)
        return layer

    def build(self, input_shape=None):
        if self.built or input_shape is None:
            return
        first = InputLayer(batch_shape=tuple(input_shape), dtype=_input_type(self._layers[0]) if self._layers else floatx())
        object.__setattr__(self, "_first", first)
        last = first.output
        for one in self._layers:
            last = one(last)
        object.__setattr__(self, "_last", last)
        self._build_shape = tuple(input_shape)
        self.built = True

    def _build_for(self, args, kwargs):
        self._ensure_init()
        shape = getattr(args[0], "shape", None)
        self._build_shape = tuple(shape) if shape is not None else None
        self.built = True

    def call(self, inputs, training=None, mask=None):
        x = inputs
        for one in self._layers:
            x = one(x)
        return x

    @property
    def layers(self):
        return list(self._layers)

    @property
    def inputs(self):
        return None if self._first is None else [self._first.output]

    @property
    def outputs(self):
        return None if self._last is None else [self._last]

    @property
    def input(self):
        self._expect_shape()
        return self._first.output

    @property
    def output(self):
        self._expect_shape()
        return self._last

    def _expect_shape(self):
        if self._first is None:
            if self._build_shape is None:
                raise AttributeError(f"The layer {self.name} has never been called and thus has no defined input.")
            first = InputLayer(batch_shape=(None,) + tuple(self._build_shape)[1:], dtype=_input_type(self._layers[0]))
            last = first.output
            for one in self._layers:
                last = one(last)
            object.__setattr__(self, "_first", first)
            object.__setattr__(self, "_last", last)

    @property
    def input_shape(self):
        return tuple(self.input.shape)

    @property
    def output_shape(self):
        return tuple(self.output.shape)

    @property
    def output_names(self):
        return None

    def compute_output_shape(self, input_shape):
        last = placeholder(input_shape, floatx())
        for one in self._layers:
            last = one(last)
        return sizes_of(last.pair)


def _input_type(layer):
    from ..layers._core import Embedding
    return "float32" if not isinstance(layer, Embedding) else "int32"
