"""Layers that normalise."""
import numpy as np

from ... import _array, _elementwise, _engine, _reduce, _types
from ..._convert import convert
from ..._tensor import of_core, of_first, of_host
from .. import constraints, initializers, regularizers
from ._base import Layer


class BatchNormalization(Layer):
    supports_masking = True

    def __init__(self, axis=-1, momentum=0.99, epsilon=1e-3, center=True, scale=True, beta_initializer="zeros",
                 gamma_initializer="ones", moving_mean_initializer="zeros", moving_variance_initializer="ones",
                 beta_regularizer=None, gamma_regularizer=None, beta_constraint=None, gamma_constraint=None,
                 renorm=False, fused=None, synchronized=False, **kwargs):
        super().__init__(**kwargs)
        self.axis = axis[0] if isinstance(axis, (list, tuple)) else int(axis)
        self.momentum, self.epsilon, self.center, self.scale = float(momentum), float(epsilon), center, scale
        self.beta_initializer, self.gamma_initializer = beta_initializer, gamma_initializer
        self.moving_mean_initializer = initializers.get(moving_mean_initializer)
        self.moving_variance_initializer = initializers.get(moving_variance_initializer)
        self.beta_regularizer, self.gamma_regularizer = beta_regularizer, gamma_regularizer
        self.beta_constraint, self.gamma_constraint = beta_constraint, gamma_constraint
        self.gamma = self.beta = None

    def build(self, input_shape):
        width = (input_shape[self.axis],)
        if self.scale:
            self.gamma = self.add_weight(width, self.gamma_initializer, name="gamma", regularizer=self.gamma_regularizer,
                                         constraint=self.gamma_constraint)
        if self.center:
            self.beta = self.add_weight(width, self.beta_initializer, name="beta", regularizer=self.beta_regularizer,
                                        constraint=self.beta_constraint)
        self.moving_mean = self.add_weight(width, self.moving_mean_initializer, trainable=False, name="moving_mean")
        self.moving_variance = self.add_weight(width, self.moving_variance_initializer, trainable=False,
                                               name="moving_variance")
        self.built = True

    def call(self, inputs, training=None, mask=None):
        x = convert(inputs)
        training = bool(training) and self.trainable
        width = x.shape[self.axis]
        gamma = convert(self.gamma).core if self.scale else of_host(np.ones(width, np.float32)).core
        beta = convert(self.beta).core if self.center else of_host(np.zeros(width, np.float32)).core
        given = (gamma, beta, self.moving_mean._core, self.moving_variance._core, training, self.momentum, self.epsilon)
        call = _engine.op("batch_norm")
        if self.axis not in (-1, x.ndim - 1):
            order = [axis for axis in range(x.ndim) if axis != self.axis % x.ndim] + [self.axis % x.ndim]
            turned = _array.transpose(x, order)
            return _array.transpose(self._normalised(turned, call, given), np.argsort(order))
        return self._normalised(x, call, given)

    def _normalised(self, x, call, given):
        if x.ndim == 4:
            return of_first(call(x.first, *given))
        if x.ndim == 2:
            return of_core(call(x.core, *given))
        sizes = x.shape.as_list()
        flat = _array.reshape(x, (int(np.prod(sizes[:-1])), sizes[-1]))
        return _array.reshape(of_core(call(flat.core, *given)), sizes)

    def compute_output_shape(self, input_shape):
        return input_shape


class LayerNormalization(Layer):
    supports_masking = True

    def __init__(self, axis=-1, epsilon=1e-3, center=True, scale=True, beta_initializer="zeros", gamma_initializer="ones",
                 beta_regularizer=None, gamma_regularizer=None, beta_constraint=None, gamma_constraint=None,
                 rms_scaling=False, **kwargs):
        super().__init__(**kwargs)
        self.axis = axis if isinstance(axis, (list, tuple)) else [axis]
        self.epsilon, self.center, self.scale, self.rms_scaling = float(epsilon), center, scale, rms_scaling
        self.beta_initializer, self.gamma_initializer = beta_initializer, gamma_initializer
        self.regularizers = regularizers.get(beta_regularizer), regularizers.get(gamma_regularizer)
        self.constraints = constraints.get(beta_constraint), constraints.get(gamma_constraint)
        self.gamma = self.beta = None

    def build(self, input_shape):
        shape = tuple(input_shape[axis] for axis in self.axis)
        if self.scale:
            self.gamma = self.add_weight(shape, self.gamma_initializer, name="gamma", regularizer=self.regularizers[1],
                                         constraint=self.constraints[1])
        if self.center:
            self.beta = self.add_weight(shape, self.beta_initializer, name="beta", regularizer=self.regularizers[0],
                                        constraint=self.constraints[0])
        self.built = True

    def call(self, inputs):
        x = convert(inputs)
        axes = [axis % x.ndim for axis in self.axis]
        if axes == [x.ndim - 1]:
            width = x.shape[-1]
            gamma = convert(self.gamma).core if self.scale else of_host(np.ones(width, np.float32)).core
            beta = convert(self.beta).core if self.center else of_host(np.zeros(width, np.float32)).core
            return of_core(_engine.op("layer_norm")(x.core, gamma, beta, self.epsilon))
        mean = _reduce.reduce_mean(x, axes, True)
        made = (x - mean) * _elementwise.rsqrt(_reduce.reduce_variance(x, axes, True) + self.epsilon)
        shape = [size if axis in axes else 1 for axis, size in enumerate(x.shape.as_list())]
        if self.scale:
            made = made * _array.reshape(convert(self.gamma), shape)
        return made + _array.reshape(convert(self.beta), shape) if self.center else made

    def compute_output_shape(self, input_shape):
        return input_shape


class GroupNormalization(Layer):
    supports_masking = True

    def __init__(self, groups=32, axis=-1, epsilon=1e-3, center=True, scale=True, beta_initializer="zeros",
                 gamma_initializer="ones", **kwargs):
        super().__init__(**kwargs)
        self.groups, self.epsilon, self.center, self.scale = groups, float(epsilon), center, scale
        self.beta_initializer, self.gamma_initializer = beta_initializer, gamma_initializer

    def build(self, input_shape):
        width = (input_shape[-1],)
        self.gamma = self.add_weight(width, self.gamma_initializer, name="gamma") if self.scale else None
        self.beta = self.add_weight(width, self.beta_initializer, name="beta") if self.center else None
        self.built = True

    def call(self, inputs):
        x = convert(inputs)
        sizes = x.shape.as_list()
        groups = sizes[-1] if self.groups == -1 else self.groups
        parts = _array.reshape(x, sizes[:-1] + [groups, sizes[-1] // groups])
        axes = list(range(1, len(sizes) - 1)) + [len(sizes)]
        mean = _reduce.reduce_mean(parts, axes, True)
        made = (parts - mean) * _elementwise.rsqrt(_reduce.reduce_variance(parts, axes, True) + self.epsilon)
        made = _array.reshape(made, sizes)
        if self.scale:
            made = made * self.gamma
        return made + self.beta if self.center else made

    def compute_output_shape(self, input_shape):
        return input_shape


class UnitNormalization(Layer):
    def __init__(self, axis=-1, **kwargs):
        super().__init__(**kwargs)
        self.axis = axis

    def call(self, inputs):
        return _reduce.l2_normalize(inputs, self.axis)


class RMSNormalization(Layer):
    def __init__(self, axis=-1, epsilon=1e-6, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = float(epsilon)

    def build(self, input_shape):
        self.scale = self.add_weight((input_shape[-1],), "ones", name="scale")
        self.built = True

    def call(self, inputs):
        return of_core(_engine.op("rms_norm")(convert(inputs).core, convert(self.scale).core, self.epsilon))


class Normalization(Layer):
    """Numbers shifted and scaled by a mean and a variance that are given, or that adapt() finds."""

    def __init__(self, axis=-1, mean=None, variance=None, invert=False, **kwargs):
        super().__init__(**kwargs)
        self.axis, self.invert = axis, invert
        self.mean = None if mean is None else np.asarray(mean, np.float32)
        self.variance = None if variance is None else np.asarray(variance, np.float32)
        self.built = mean is not None

    def adapt(self, data, batch_size=None, steps=None):
        from ...data import Dataset
        batches = data if isinstance(data, Dataset) else [data]
        count, total, squares = 0, 0.0, 0.0
        for batch in batches:
            array = np.asarray(batch, np.float64)
            axes = tuple(range(array.ndim)) if self.axis is None else tuple(
                one for one in range(array.ndim) if one not in {axis % array.ndim for axis in np.atleast_1d(self.axis)})
            count += int(np.prod([array.shape[one] for one in axes]))
            total = total + array.sum(axes)
            squares = squares + np.square(array).sum(axes)
        mean = total / count
        self.mean, self.variance = mean.astype(np.float32), (squares / count - mean**2).astype(np.float32)
        self.built = True

    def call(self, inputs):
        if self.mean is None:
            raise ValueError("Normalization has no mean and variance yet: call adapt() with data, or give them")
        x = _elementwise.cast(inputs, _types.float32)
        deviation = np.maximum(np.sqrt(self.variance), 1e-7).astype(np.float32)
        return x * deviation + self.mean if self.invert else (x - self.mean) / deviation

    def compute_output_shape(self, input_shape):
        return input_shape
