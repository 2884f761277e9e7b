"""Layers that join several tensors."""
from ... import _array, _elementwise, _linear, _reduce
from ..._convert import convert
from ._base import Layer


class _Merge(Layer):
    supports_masking = True

    def call(self, inputs):
        parts = [convert(one) for one in inputs]
        made = parts[0]
        for one in parts[1:]:
            made = self._join(made, one)
        return made

    def compute_mask(self, inputs, previous_mask=None):
        return None


class Add(_Merge):
    def _join(self, a, b):
        return _elementwise.add(a, b)


class Subtract(_Merge):
    def _join(self, a, b):
        return _elementwise.subtract(a, b)


class Multiply(_Merge):
    def _join(self, a, b):
        return _elementwise.multiply(a, b)


class Maximum(_Merge):
    def _join(self, a, b):
        return _elementwise.maximum(a, b)


class Minimum(_Merge):
    def _join(self, a, b):
        return _elementwise.minimum(a, b)


class Average(Add):
    def call(self, inputs):
        return super().call(inputs) / float(len(inputs))


class Concatenate(_Merge):
    def __init__(self, axis=-1, **kwargs):
        super().__init__(**kwargs)
        self.axis = axis

    def call(self, inputs):
        return _array.concat([convert(one) for one in inputs], self.axis)


class Dot(_Merge):
    def __init__(self, axes, normalize=False, **kwargs):
        super().__init__(**kwargs)
        self.axes, self.normalize = axes, normalize

    def call(self, inputs):
        a, b = (convert(one) for one in inputs)
        first, second = (self.axes, self.axes) if isinstance(self.axes, int) else self.axes
        first, second = first % a.ndim, second % b.ndim
        if self.normalize:
            a, b = _reduce.l2_normalize(a, first), _reduce.l2_normalize(b, second)
        if a.ndim == 2 and b.ndim == 2:
            return _reduce.reduce_sum(a * b, 1, True)
        x = _array.expand_dims(a, 1) if a.ndim == 2 else (_array.transpose(a, (0, 2, 1)) if first == 1 else a)
        y = _array.expand_dims(b, -1) if b.ndim == 2 else (_array.transpose(b, (0, 2, 1)) if second == 2 else b)
        made = _linear.matmul(x, y)
        if a.ndim == 2:
            made = _array.squeeze(made, 1)
        return _array.squeeze(made, -1) if b.ndim == 2 else made


def add(inputs, **kwargs):
    return Add(**kwargs)(inputs)


def subtract(inputs, **kwargs):
    return Subtract(**kwargs)(inputs)


def multiply(inputs, **kwargs):
    return Multiply(**kwargs)(inputs)


def average(inputs, **kwargs):
    return Average(**kwargs)(inputs)


def maximum(inputs, **kwargs):
    return Maximum(**kwargs)(inputs)


def minimum(inputs, **kwargs):
    return Minimum(**kwargs)(inputs)


def concatenate(inputs, axis=-1, **kwargs):
    return Concatenate(axis=axis, **kwargs)(inputs)


def dot(inputs, axes=-1, **kwargs):
    return Dot(axes=axes, **kwargs)(inputs)
