"""Functional models: layers and operators between inputs and outputs."""
from ... import nest
from ..._call import Symbolic, evaluate, order_of
from ..._convert import convert
from ..._elementwise import cast
from ..._types import as_dtype
from .._state import Training
from ..layers._base import Layer
from ._model import Model


class Functional(Model):
    def __init__(self, inputs, outputs, name=None, trainable=True, **kwargs):
        Layer.__init__(self, name=name, trainable=trainable, **kwargs)
        self._connect(inputs, outputs)

    _functional = True

    def _connect(self, inputs, outputs):
        symbols = nest.flatten(inputs)
        for one in symbols + nest.flatten(outputs):
            if not isinstance(one, Symbolic):
                raise ValueError(f"All `inputs` and `outputs` values must be KerasTensors. Received: {one!r}; begin with "
                                 "tf.keras.Input")
        object.__setattr__(self, "_inputs", inputs)
        object.__setattr__(self, "_outputs", outputs)
        known = {id(one) for one in symbols}
        nodes = [node for node in order_of([one.node for one in nest.flatten(outputs)], known)]
        for node in nodes:
            if node.kind in ("input", "placeholder") and id(node.outputs) not in known:
                raise ValueError(f"`inputs` not connected to `outputs`: {node.outputs!r} is needed and is no input")
        object.__setattr__(self, "_order", [node for node in nodes if not self._is_given(node, known)])
        layers = []
        for node in sorted(nodes, key=lambda node: node.number):
            layer = node.function
            if getattr(layer, "_is_layer", False) and not any(one is layer for one in layers):
                layers.append(layer)
        for one in symbols:
            layer = one.node.function
            if getattr(layer, "_is_layer", False) and not any(other is layer for other in layers):
                layers.insert(0, layer)
        object.__setattr__(self, "_layers", layers)
        self.built = True

    @staticmethod
    def _is_given(node, known):
        return all(id(one) in known for one in nest.flatten(node.outputs))

    def call(self, inputs, training=None, mask=None):
        given = _in_order(inputs, self._inputs)
        values = {}
        for symbol, value in zip(nest.flatten(self._inputs), given):
            if symbol._sizes is not None and len(symbol._sizes) == value.ndim + 1 and symbol._sizes[-1] == 1:
                from ..._array import expand_dims
                value = expand_dims(value, -1)
            elif symbol.pair is not None and len(symbol._sizes) != value.ndim:
                raise ValueError(f'Input 0 of layer "{self.name}" is incompatible with the layer: expected shape='
                                 f"{symbol._sizes}, found shape={tuple(value.shape)}")
            kind = as_dtype(symbol.dtype)
            mask = value._keras_mask
            value = value if value.dtype is kind or value.dtype.is_floating and kind.name != "float32" \
                and kind.is_floating else cast(value, kind)
            if mask is not None:
                value._keras_mask = mask
            values[id(symbol)] = value
        with Training(training):
            evaluate(self._order, values)
        return nest.map_structure(lambda one: values[id(one)], self._outputs)

    @property
    def inputs(self):
        return nest.flatten(self._inputs)

    @property
    def outputs(self):
        return nest.flatten(self._outputs)

    @property
    def input(self):
        return self._inputs

    @property
    def output(self):
        return self._outputs

    @property
    def input_shape(self):
        return nest.map_structure(lambda one: tuple(one.shape), self._inputs)

    @property
    def output_shape(self):
        return nest.map_structure(lambda one: tuple(one.shape), self._outputs)

    @property
    def input_names(self):
        return [one.label for one in self.inputs]

    @property
    def output_names(self):
        if isinstance(self._outputs, dict):
            return None
        names, counts = [], {}
        for one in self.outputs:
            name = getattr(one.node.function, "name", one.node.name)
            counts[name] = counts.get(name, 0) + 1
            names.append(name if counts[name] == 1 else f"{name}_{counts[name] - 1}")
        return names

    def compute_output_shape(self, input_shape):
        return self.output_shape


for _name in ("inputs", "outputs", "input", "output", "input_shape", "output_shape", "output_names"):
    def _either(name):
        functional, plain = Functional.__dict__[name], getattr(Model, name)

        def get(self):
            return (functional if self._functional else plain).fget(self)
        return property(get)
    setattr(Model, _name, _either(_name))


def _in_order(inputs, like):
    """The values in the order of the model's inputs, also of a dictionary by their names."""
    if isinstance(inputs, dict):
        names = [one.label for one in nest.flatten(like)]
        if isinstance(like, dict):
            return [convert(inputs[key]) for key in sorted(like)]
        missing = [name for name in names if name not in inputs]
        if missing:
            raise ValueError(f"Missing data for input \"{missing[0]}\". You passed a data dictionary with keys "
                             f"{sorted(inputs)}. Expected the following keys: {names}")
        return [convert(inputs[name]) for name in names]
    given = nest.flatten(inputs)
    wanted = nest.flatten(like)
    if len(given) != len(wanted):
        raise ValueError(f"Layer \"functional\" expects {len(wanted)} input(s), but it received {len(given)} input tensors.")
    return [convert(one) for one in given]
