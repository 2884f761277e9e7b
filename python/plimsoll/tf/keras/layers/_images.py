"""Convolutions, pooling, padding and resizing of images, sequences and volumes, channels last."""
import math

import numpy as np

from ... import _array, _image, _nn, _reduce
from ..._convert import convert
from .. import activations
from ._base import Layer


def _expect_last(data_format):
    if data_format not in (None, "channels_last"):
        raise ValueError("plimsoll.tf has its images with channels last; TensorFlow on a processor has no other "
                         "convolution either. Leave data_format out")


class _Conv(Layer):
    rank = 2

    def __init__(self, filters, kernel_size, strides=1, padding="valid", data_format=None, dilation_rate=1, groups=1,
                 activation=None, use_bias=True, kernel_initializer="glorot_uniform", bias_initializer="zeros",
                 kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None,
                 bias_constraint=None, **kwargs):
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        _expect_last(data_format)
        self.filters = filters
        self.kernel_size = _nn.spatial(kernel_size, self.rank, "kernel_size")
        self.strides = _nn.spatial(strides, self.rank)
        self.dilation_rate = _nn.spatial(dilation_rate, self.rank, "dilation_rate")
        self.padding = padding.lower()
        if self.padding not in ("valid", "same", "causal"):
            raise ValueError(f"Invalid padding: {padding}. Expected 'valid', 'same' or 'causal'")
        self.groups = groups
        self.activation = activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer, self.bias_initializer = kernel_initializer, bias_initializer
        self.kernel_regularizer, self.bias_regularizer = kernel_regularizer, bias_regularizer
        self.kernel_constraint, self.bias_constraint = kernel_constraint, bias_constraint
        self.bias = None

    def _kernel_shape(self, channels):
        return self.kernel_size + (channels // self.groups, self.filters)

    def _bias_size(self, channels):
        return self.filters

    def build(self, input_shape):
        if len(input_shape) != self.rank + 2:
            raise ValueError(f'Input 0 of layer "{self.name}" is incompatible with the layer: expected '
                             f"min_ndim={self.rank + 2}, found ndim={len(input_shape)}. Full shape received: "
                             f"{tuple(input_shape)}")
        channels = input_shape[-1]
        if channels % self.groups:
            raise ValueError(f"The number of input channels must be evenly divisible by the number of groups. Received: "
                             f"groups={self.groups}, input_shape={tuple(input_shape)}")
        self.kernel = self.add_weight(self._kernel_shape(channels), self.kernel_initializer, name="kernel",
                                      regularizer=self.kernel_regularizer, constraint=self.kernel_constraint)
        if self.use_bias:
            self.bias = self.add_weight((self._bias_size(channels),), self.bias_initializer, name="bias",
                                        regularizer=self.bias_regularizer, constraint=self.bias_constraint)
        self.built = True

    def call(self, inputs):
        x, padding = convert(inputs), self.padding
        if padding == "causal":
            x, padding = _array.pad(x, [[0, 0], [(self.kernel_size[0] - 1) * self.dilation_rate[0], 0], [0, 0]]), "valid"
        return self.activation(_nn.convolve(x, self.kernel, self.strides, padding, self.dilation_rate,
                                            self.bias if self.use_bias else None))

    def compute_output_shape(self, input_shape):
        sizes = [_out(size, width, stride, hole, self.padding) for size, width, stride, hole in zip(
            list(input_shape)[1:-1], self.kernel_size, self.strides, self.dilation_rate)]
        return (input_shape[0], *sizes, self._bias_size(input_shape[-1]))


def _out(size, width, stride, hole, padding):
    if size is None:
        return None
    if padding in ("same", "causal"):
        return math.ceil(size / stride)
    return (size - (width - 1) * hole - 1) // stride + 1


class Conv1D(_Conv):
    rank = 1


class Conv2D(_Conv):
    rank = 2


class Conv3D(_Conv):
    rank = 3


class DepthwiseConv2D(_Conv):
    def __init__(self, kernel_size, strides=1, padding="valid", depth_multiplier=1, data_format=None, dilation_rate=1,
                 activation=None, use_bias=True, depthwise_initializer="glorot_uniform", bias_initializer="zeros",
                 depthwise_regularizer=None, bias_regularizer=None, **kwargs):
        super().__init__(None, kernel_size, strides, padding, data_format, dilation_rate, 1, activation, use_bias,
                         depthwise_initializer, bias_initializer, depthwise_regularizer, bias_regularizer, **kwargs)
        self.depth_multiplier = depth_multiplier

    def _kernel_shape(self, channels):
        return self.kernel_size + (channels, self.depth_multiplier)

    def _bias_size(self, channels):
        return channels * self.depth_multiplier

    @property
    def depthwise_kernel(self):
        return self.kernel

    def call(self, inputs):
        return self.activation(_nn.depthwise_conv2d(inputs, self.kernel, self.strides, self.padding.upper(),
                                                    dilations=self.dilation_rate,
                                                    bias=self.bias if self.use_bias else None))


class SeparableConv2D(_Conv):
    def __init__(self, filters, kernel_size, strides=1, padding="valid", data_format=None, dilation_rate=1,
                 depth_multiplier=1, activation=None, use_bias=True, depthwise_initializer="glorot_uniform",
                 pointwise_initializer="glorot_uniform", bias_initializer="zeros", **kwargs):
        super().__init__(filters, kernel_size, strides, padding, data_format, dilation_rate, 1, activation, use_bias,
                         depthwise_initializer, bias_initializer, **kwargs)
        self.depth_multiplier, self.pointwise_initializer = depth_multiplier, pointwise_initializer

    def build(self, input_shape):
        channels = input_shape[-1]
        self.depthwise_kernel = self.add_weight(self.kernel_size + (channels, self.depth_multiplier),
                                                self.kernel_initializer, name="depthwise_kernel")
        self.pointwise_kernel = self.add_weight((1, 1, channels * self.depth_multiplier, self.filters),
                                                self.pointwise_initializer, name="pointwise_kernel")
        if self.use_bias:
            self.bias = self.add_weight((self.filters,), self.bias_initializer, name="bias")
        self.built = True

    def call(self, inputs):
        x = _nn.depthwise_conv2d(inputs, self.depthwise_kernel, self.strides, self.padding.upper(),
                                 dilations=self.dilation_rate)
        return self.activation(_nn.convolve(x, self.pointwise_kernel, 1, "valid", 1,
                                            self.bias if self.use_bias else None))


class _ConvTranspose(_Conv):
    def __init__(self, filters, kernel_size, strides=1, padding="valid", output_padding=None, data_format=None,
                 dilation_rate=1, activation=None, use_bias=True, kernel_initializer="glorot_uniform",
                 bias_initializer="zeros", kernel_regularizer=None, bias_regularizer=None, **kwargs):
        super().__init__(filters, kernel_size, strides, padding, data_format, dilation_rate, 1, activation, use_bias,
                         kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer, **kwargs)
        self.output_padding = output_padding

    def _kernel_shape(self, channels):
        return self.kernel_size + (self.filters, channels)

    def call(self, inputs):
        return self.activation(_nn.convolve_transpose(inputs, self.kernel, self.strides, self.padding,
                                                      self.bias if self.use_bias else None, self.output_padding))

    def compute_output_shape(self, input_shape):
        return Layer.compute_output_shape(self, input_shape)


class Conv1DTranspose(_ConvTranspose):
    rank = 1


class Conv2DTranspose(_ConvTranspose):
    rank = 2


class Conv3DTranspose(_ConvTranspose):
    rank = 3


class _Pool(Layer):
    rank, kind = 2, "max"

    def __init__(self, pool_size=2, strides=None, padding="valid", data_format=None, **kwargs):
        super().__init__(**kwargs)
        _expect_last(data_format)
        self.pool_size = _nn.spatial(pool_size, self.rank, "pool_size")
        self.strides = self.pool_size if strides is None else _nn.spatial(strides, self.rank)
        self.padding = padding.lower()

    def call(self, inputs):
        return _nn.pool(inputs, self.kind, self.pool_size, self.strides, self.padding)

    def compute_output_shape(self, input_shape):
        sizes = [_out(size, width, stride, 1, self.padding) for size, width, stride in zip(
            list(input_shape)[1:-1], self.pool_size, self.strides)]
        return (input_shape[0], *sizes, input_shape[-1])


def _pooling(name, rank, kind):
    return type(name, (_Pool,), {"rank": rank, "kind": kind, "__module__": __name__})


MaxPooling1D = MaxPool1D = _pooling("MaxPooling1D", 1, "max")
MaxPooling2D = MaxPool2D = _pooling("MaxPooling2D", 2, "max")
MaxPooling3D = MaxPool3D = _pooling("MaxPooling3D", 3, "max")
AveragePooling1D = AvgPool1D = _pooling("AveragePooling1D", 1, "average")
AveragePooling2D = AvgPool2D = _pooling("AveragePooling2D", 2, "average")
AveragePooling3D = AvgPool3D = _pooling("AveragePooling3D", 3, "average")


class _GlobalPool(Layer):
    rank, kind = 2, "average"

    def __init__(self, data_format=None, keepdims=False, **kwargs):
        super().__init__(**kwargs)
        _expect_last(data_format)
        self.keepdims = keepdims
        self.supports_masking = self.rank == 1 and self.kind == "average"

    def call(self, inputs, mask=None):
        axes = tuple(range(1, self.rank + 1))
        if self.kind == "average":
            if mask is not None:
                from ..._elementwise import cast
                x = convert(inputs)
                weight = _array.expand_dims(cast(mask, x.dtype), -1)
                return _reduce.reduce_sum(x * weight, axes, self.keepdims) / _reduce.reduce_sum(weight, axes, self.keepdims)
            return _reduce.reduce_mean(inputs, axes, self.keepdims)
        return _reduce.reduce_max(inputs, axes, self.keepdims)

    def compute_mask(self, inputs, previous_mask=None):
        return None

    def compute_output_shape(self, input_shape):
        if self.keepdims:
            return (input_shape[0],) + (1,) * self.rank + (input_shape[-1],)
        return (input_shape[0], input_shape[-1])


def _global(name, rank, kind):
    return type(name, (_GlobalPool,), {"rank": rank, "kind": kind, "__module__": __name__})


GlobalMaxPooling1D = GlobalMaxPool1D = _global("GlobalMaxPooling1D", 1, "max")
GlobalMaxPooling2D = GlobalMaxPool2D = _global("GlobalMaxPooling2D", 2, "max")
GlobalMaxPooling3D = GlobalMaxPool3D = _global("GlobalMaxPooling3D", 3, "max")
GlobalAveragePooling1D = GlobalAvgPool1D = _global("GlobalAveragePooling1D", 1, "average")
GlobalAveragePooling2D = GlobalAvgPool2D = _global("GlobalAveragePooling2D", 2, "average")
GlobalAveragePooling3D = GlobalAvgPool3D = _global("GlobalAveragePooling3D", 3, "average")


def _sides(value, rank):
    if isinstance(value, (int, np.integer)):
        return [(int(value), int(value))] * rank
    value = list(value)
    if rank == 1 and len(value) == 2 and not isinstance(value[0], (list, tuple)):
        return [tuple(value)]
    return [(int(one), int(one)) if isinstance(one, (int, np.integer)) else tuple(one) for one in value]


class _ZeroPadding(Layer):
    rank = 2

    def __init__(self, padding=1, data_format=None, **kwargs):
        super().__init__(**kwargs)
        self.padding = _sides(padding, self.rank)

    def call(self, inputs):
        return _array.pad(inputs, [(0, 0), *self.padding, (0, 0)])


class _Cropping(_ZeroPadding):
    def __init__(self, cropping=1, data_format=None, **kwargs):
        super().__init__(cropping, **kwargs)

    def call(self, inputs):
        x = convert(inputs)
        parts = [slice(a, size - b) for (a, b), size in zip(self.padding, x.shape.as_list()[1:-1])]
        return x[(slice(None), *parts)]


ZeroPadding1D, ZeroPadding2D, ZeroPadding3D = (
    type(f"ZeroPadding{rank}D", (_ZeroPadding,), {"rank": rank, "__module__": __name__}) for rank in (1, 2, 3))
Cropping1D, Cropping2D, Cropping3D = (
    type(f"Cropping{rank}D", (_Cropping,), {"rank": rank, "__module__": __name__}) for rank in (1, 2, 3))


class UpSampling1D(Layer):
    def __init__(self, size=2, **kwargs):
        super().__init__(**kwargs)
        self.size = int(size)

    def call(self, inputs):
        return _array.repeat(inputs, self.size, 1)


class UpSampling2D(Layer):
    def __init__(self, size=(2, 2), data_format=None, interpolation="nearest", **kwargs):
        super().__init__(**kwargs)
        self.size, self.interpolation = _nn.spatial(size, 2, "size"), interpolation

    def call(self, inputs):
        x = convert(inputs)
        if self.interpolation == "nearest":
            return _array.repeat(_array.repeat(x, self.size[0], 1), self.size[1], 2)
        _, height, width, _ = x.shape.as_list()
        return _image.resize(x, (height * self.size[0], width * self.size[1]), self.interpolation)
