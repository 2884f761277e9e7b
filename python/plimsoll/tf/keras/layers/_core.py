"""Dense, activations, shapes, dropout, embeddings, and functions as layers."""
import numpy as np

from ... import _array, _elementwise, _linear, _nn, _random, _types
from ..._call import Symbolic, placeholder
from ..._convert import convert
from ..._types import TensorShape, as_dtype
from .. import activations
from .._state import floatx
from ._base import Layer


def Input(shape=None, batch_size=None, dtype=None, sparse=None, ragged=None, batch_shape=None, name=None, tensor=None,
          optional=False):
    """A value that a functional model is given."""
    return InputLayer(shape=shape, batch_size=batch_size, dtype=dtype, batch_shape=batch_shape, name=name).output


class InputLayer(Layer):
    def __init__(self, shape=None, batch_size=None, dtype=None, sparse=None, batch_shape=None, input_tensor=None,
                 name=None, input_shape=None, **kwargs):
        super().__init__(name=name, dtype=None)
        shape = shape if shape is not None else input_shape
        if batch_shape is None:
            if shape is None:
                raise ValueError("You must pass a `shape` argument.")
            batch_shape = (batch_size,) + tuple(TensorShape(shape))
        self.batch_shape = tuple(TensorShape(batch_shape))
        self._input_dtype = as_dtype(dtype or floatx())
        symbol = placeholder(self.batch_shape, self._input_dtype, kind="input")
        symbol.label = self.name
        symbol.node.function = self
        symbol.node.args = (symbol,)
        symbol.node.inputs_cache = []
        self._nodes.append(symbol.node)
        self.built = True

    @property
    def dtype(self):
        return self._input_dtype.name

    @property
    def input(self):
        return self._nodes[0].outputs

    output = input

    def call(self, inputs):
        return inputs

    def get_config(self):
        return {"batch_shape": self.batch_shape, "dtype": self._input_dtype.name, "name": self.name}


class Dense(Layer):
    supports_masking = True

    def __init__(self, units, activation=None, use_bias=True, kernel_initializer="glorot_uniform",
                 bias_initializer="zeros", kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None,
                 kernel_constraint=None, bias_constraint=None, lora_rank=None, lora_alpha=None, **kwargs):
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        if not isinstance(units, (int, np.integer)) or units <= 0:
            raise ValueError(f"Received an invalid value for `units`, expected a positive integer. Received: units={units}")
        self.units = int(units)
        self.activation = activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer, self.bias_initializer = kernel_initializer, bias_initializer
        self.kernel_regularizer, self.bias_regularizer = kernel_regularizer, bias_regularizer
        self.kernel_constraint, self.bias_constraint = kernel_constraint, bias_constraint
        self.bias = None

    def build(self, input_shape):
        if input_shape[-1] is None:
            raise ValueError("The last dimension of the inputs to a Dense layer should be defined. Found None.")
        self.kernel = self.add_weight((input_shape[-1], self.units), self.kernel_initializer, name="kernel",
                                      regularizer=self.kernel_regularizer, constraint=self.kernel_constraint)
        if self.use_bias:
            self.bias = self.add_weight((self.units,), self.bias_initializer, name="bias",
                                        regularizer=self.bias_regularizer, constraint=self.bias_constraint)
        self.built = True

    def call(self, inputs, training=None):
        x = convert(inputs)
        if x.dtype.is_integer or x.dtype.is_bool:
            x = _elementwise.cast(x, _types.float32)
        width = x.shape[-1]
        if width != self.kernel.shape[0]:
            raise ValueError(f'Exception encountered when calling Dense.call(). Input 0 of layer "{self.name}" is '
                             f"incompatible with the layer: expected axis -1 of input shape to have value "
                             f"{self.kernel.shape[0]}, but received input with shape {tuple(x.shape)}")
        bias = self.bias if self.use_bias else None
        return self.activation(_dense(x, self.kernel, bias))

    def compute_output_shape(self, input_shape):
        return tuple(input_shape)[:-1] + (self.units,)


def _dense(x, kernel, bias):
    from ... import _engine
    from ..._tensor import of_core
    given = [x.core, convert(kernel).core] + ([convert(bias).core] if bias is not None else [])
    return of_core(_engine.op("dense")(*given))


class EinsumDense(Layer):
    def __init__(self, equation, output_shape, activation=None, bias_axes=None, kernel_initializer="glorot_uniform",
                 bias_initializer="zeros", kernel_regularizer=None, bias_regularizer=None, **kwargs):
        super().__init__(**kwargs)
        self.equation = equation
        self.partial_output_shape = (output_shape,) if isinstance(output_shape, int) else tuple(output_shape)
        self.activation, self.bias_axes = activations.get(activation), bias_axes
        self.kernel_initializer, self.bias_initializer = kernel_initializer, bias_initializer

    def build(self, input_shape):
        left, output = self.equation.split("->")
        inputs, kernel = left.split(",")
        sizes = dict(zip(inputs.replace("...", ""), list(input_shape)[-len(inputs.replace("...", "")):]))
        shape = self.partial_output_shape
        letters = output.replace("...", "")
        sizes.update({letter: size for letter, size in zip(letters[-len(shape):], shape) if size is not None})
        self.kernel = self.add_weight([sizes[letter] for letter in kernel], self.kernel_initializer, name="kernel")
        self.bias = None
        if self.bias_axes:
            first = min(letters.index(letter) for letter in self.bias_axes)
            self.bias = self.add_weight([sizes[letter] if letter in self.bias_axes else 1 for letter in letters[first:]],
                                        self.bias_initializer, name="bias")
        self.built = True

    def call(self, inputs):
        made = _linear.einsum(self.equation, inputs, self.kernel)
        return self.activation(made if self.bias is None else made + self.bias)


class Activation(Layer):
    supports_masking = True

    def __init__(self, activation, **kwargs):
        super().__init__(**kwargs)
        self.activation = activations.get(activation)

    def call(self, inputs):
        return self.activation(inputs)

    def compute_output_shape(self, input_shape):
        return input_shape


class ReLU(Activation):
    def __init__(self, max_value=None, negative_slope=0.0, threshold=0.0, **kwargs):
        slope = kwargs.pop("alpha", negative_slope)
        Layer.__init__(self, **kwargs)
        self.activation = lambda x: activations.relu(x, slope, max_value, threshold)


class LeakyReLU(Activation):
    def __init__(self, negative_slope=0.3, **kwargs):
        slope = float(kwargs.pop("alpha", negative_slope))
        Layer.__init__(self, **kwargs)
        self.negative_slope = slope
        self.activation = lambda x: _nn.leaky_relu(x, slope)


class ELU(Activation):
    def __init__(self, alpha=1.0, **kwargs):
        Layer.__init__(self, **kwargs)
        self.activation = lambda x: activations.elu(x, alpha)


class Softmax(Activation):
    def __init__(self, axis=-1, **kwargs):
        Layer.__init__(self, **kwargs)
        self.activation = lambda x: activations.softmax(x, axis)


class PReLU(Layer):
    supports_masking = True

    def __init__(self, alpha_initializer="zeros", alpha_regularizer=None, alpha_constraint=None, shared_axes=None,
                 **kwargs):
        super().__init__(**kwargs)
        self.alpha_initializer, self.alpha_regularizer = alpha_initializer, alpha_regularizer
        self.shared_axes = [shared_axes] if isinstance(shared_axes, int) else shared_axes

    def build(self, input_shape):
        shape = list(input_shape[1:])
        for axis in self.shared_axes or []:
            shape[axis - 1] = 1
        self.alpha = self.add_weight(shape, self.alpha_initializer, name="alpha", regularizer=self.alpha_regularizer)
        self.built = True

    def call(self, inputs):
        x = convert(inputs)
        return _nn.relu(x) - self.alpha * _nn.relu(-x)

    def compute_output_shape(self, input_shape):
        return input_shape


class Flatten(Layer):
    def __init__(self, data_format=None, **kwargs):
        super().__init__(**kwargs)

    def call(self, inputs):
        x = convert(inputs)
        sizes = x.shape.as_list()
        return _array.reshape(x, (sizes[0], int(np.prod(sizes[1:], dtype=np.int64))))

    def compute_output_shape(self, input_shape):
        rest = list(input_shape)[1:]
        return (input_shape[0], None if None in rest else int(np.prod(rest, dtype=np.int64)))


class Reshape(Layer):
    def __init__(self, target_shape, **kwargs):
        super().__init__(**kwargs)
        self.target_shape = tuple(target_shape)

    def call(self, inputs):
        x = convert(inputs)
        return _array.reshape(x, (x.shape[0],) + self.target_shape)


class Permute(Layer):
    def __init__(self, dims, **kwargs):
        super().__init__(**kwargs)
        self.dims = tuple(dims)

    def call(self, inputs):
        return _array.transpose(inputs, (0,) + self.dims)


class RepeatVector(Layer):
    def __init__(self, n, **kwargs):
        super().__init__(**kwargs)
        self.n = n

    def call(self, inputs):
        x = convert(inputs)
        return _array.tile(_array.expand_dims(x, 1), (1, self.n, 1))


class Identity(Layer):
    supports_masking = True

    def call(self, inputs):
        return inputs


class Dropout(Layer):
    supports_masking = True

    def __init__(self, rate, noise_shape=None, seed=None, **kwargs):
        super().__init__(**kwargs)
        if not 0 <= rate <= 1:
            raise ValueError(f"Invalid value received for argument `rate`. Expected a float value between 0 and 1. "
                             f"Received: rate={rate}")
        self.rate, self.noise_shape, self.seed = rate, noise_shape, seed

    def call(self, inputs, training=False):
        if not training or self.rate == 0:
            return convert(inputs)
        return _nn.dropout(inputs, self.rate, self._noise(convert(inputs)))

    def _noise(self, x):
        return self.noise_shape

    def compute_output_shape(self, input_shape):
        return input_shape


class SpatialDropout1D(Dropout):
    def _noise(self, x):
        sizes = x.shape.as_list()
        return [sizes[0]] + [1] * (len(sizes) - 2) + [sizes[-1]]


SpatialDropout2D = type("SpatialDropout2D", (SpatialDropout1D,), {})
SpatialDropout3D = type("SpatialDropout3D", (SpatialDropout1D,), {})


class GaussianNoise(Layer):
    supports_masking = True

    def __init__(self, stddev, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.stddev = stddev

    def call(self, inputs, training=False):
        x = convert(inputs)
        return x + _random.normal(x.shape, stddev=self.stddev) if training and self.stddev > 0 else x


class GaussianDropout(Layer):
    supports_masking = True

    def __init__(self, rate, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate

    def call(self, inputs, training=False):
        x = convert(inputs)
        if not training or self.rate == 0:
            return x
        return x * _random.normal(x.shape, 1.0, float(np.sqrt(self.rate / (1 - self.rate))))


class ActivityRegularization(Layer):
    supports_masking = True

    def __init__(self, l1=0.0, l2=0.0, **kwargs):
        from ..regularizers import L1L2
        super().__init__(activity_regularizer=L1L2(l1, l2), **kwargs)

    def call(self, inputs):
        return convert(inputs)


class Embedding(Layer):
    def __init__(self, input_dim, output_dim, embeddings_initializer="uniform", embeddings_regularizer=None,
                 embeddings_constraint=None, mask_zero=False, weights=None, lora_rank=None, input_length=None, **kwargs):
        super().__init__(weights=weights, **kwargs)
        self.input_dim, self.output_dim, self.mask_zero = input_dim, output_dim, mask_zero
        self.supports_masking = mask_zero
        self.embeddings_initializer, self.embeddings_regularizer = embeddings_initializer, embeddings_regularizer
        self.embeddings_constraint = embeddings_constraint
        self._given_shape = (None, input_length) if input_length else self._given_shape

    def build(self, input_shape=None):
        self.embeddings = self.add_weight((self.input_dim, self.output_dim), self.embeddings_initializer,
                                          name="embeddings", regularizer=self.embeddings_regularizer,
                                          constraint=self.embeddings_constraint)
        self.built = True

    def call(self, inputs):
        places = convert(inputs)
        if places.dtype.name not in ("int32", "int64"):
            places = _elementwise.cast(places, _types.int32)
        return _array.gather(self.embeddings, places)

    def compute_mask(self, inputs, previous_mask=None):
        return _elementwise.not_equal(convert(inputs), 0) if self.mask_zero else None

    def compute_output_shape(self, input_shape):
        return tuple(input_shape) + (self.output_dim,)


class Masking(Layer):
    supports_masking = True

    def __init__(self, mask_value=0.0, **kwargs):
        super().__init__(**kwargs)
        self.mask_value = mask_value

    def compute_mask(self, inputs, previous_mask=None):
        from ..._reduce import reduce_any
        return reduce_any(_elementwise.not_equal(convert(inputs), self.mask_value), -1)

    def call(self, inputs):
        from ..._reduce import reduce_any
        x = convert(inputs)
        return x * _elementwise.cast(reduce_any(_elementwise.not_equal(x, self.mask_value), -1, True), x.dtype)


class Lambda(Layer):
    supports_masking = True

    def __init__(self, function, output_shape=None, mask=None, arguments=None, **kwargs):
        super().__init__(**kwargs)
        self.function, self.arguments = function, arguments or {}

    def call(self, inputs, mask=None, training=None):
        return self.function(inputs, **self.arguments)


def is_symbol(value):
    return isinstance(value, Symbolic)
