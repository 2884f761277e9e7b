"""Layers that prepare images and numbers, in models and in Dataset.map."""
import numpy as np

from ... import _array, _elementwise, _image, _types
from ..._convert import convert
from ..._random import generator
from ..._tensor import of_host
from ._base import Layer


class Rescaling(Layer):
    def __init__(self, scale, offset=0.0, **kwargs):
        super().__init__(**kwargs)
        self.scale, self.offset = scale, offset

    def call(self, inputs):
        x = _elementwise.cast(inputs, _types.float32)
        made = x * (self.scale if isinstance(self.scale, (int, float)) else np.asarray(self.scale, np.float32))
        return made + self.offset if np.any(self.offset) else made

    def compute_output_shape(self, input_shape):
        return input_shape


class Resizing(Layer):
    def __init__(self, height, width, interpolation="bilinear", crop_to_aspect_ratio=False, pad_to_aspect_ratio=False,
                 **kwargs):
        super().__init__(**kwargs)
        if crop_to_aspect_ratio or pad_to_aspect_ratio:
            raise NotImplementedError("plimsoll.tf: Resizing keeps no aspect ratio; crop with CenterCrop first")
        self.height, self.width, self.interpolation = height, width, interpolation

    def call(self, inputs):
        return _elementwise.cast(_image.resize(inputs, (self.height, self.width), self.interpolation), _types.float32)


class CenterCrop(Layer):
    def __init__(self, height, width, **kwargs):
        super().__init__(**kwargs)
        self.height, self.width = height, width

    def call(self, inputs):
        return _image.resize_with_crop_or_pad(inputs, self.height, self.width)


class _Augmentation(Layer):
    """Changes images at random, in training alone."""

    def call(self, inputs, training=True):
        x = convert(inputs)
        if not training:
            return x
        return self._changed(x if x.dtype.is_floating else _elementwise.cast(x, _types.float32))


def _choices(x, chance=0.5):
    """A truth for each image of a batch, or one for a single image."""
    count = x.shape[0] if x.ndim == 4 else 1
    chosen = generator().random(count) < chance
    return of_host(chosen.reshape((count, 1, 1, 1) if x.ndim == 4 else (1, 1, 1)))


class RandomFlip(_Augmentation):
    def __init__(self, mode="horizontal_and_vertical", seed=None, **kwargs):
        super().__init__(**kwargs)
        self.mode = mode

    def _changed(self, x):
        for word, axis in (("horizontal", x.ndim - 2), ("vertical", x.ndim - 3)):
            if word in self.mode:
                x = _array.where(_choices(x), _array.reverse(x, [axis]), x)
        return x


class RandomContrast(_Augmentation):
    def __init__(self, factor, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.factor = (factor, factor) if isinstance(factor, (int, float)) else tuple(factor)

    def _changed(self, x):
        from ..._reduce import reduce_mean
        by = float(generator().uniform(1 - self.factor[0], 1 + self.factor[1]))
        mean = reduce_mean(x, (x.ndim - 3, x.ndim - 2), True)
        return (x - mean) * of_host(np.float32(by)) + mean


class RandomBrightness(_Augmentation):
    def __init__(self, factor, value_range=(0, 255), seed=None, **kwargs):
        super().__init__(**kwargs)
        self.factor = (-factor, factor) if isinstance(factor, (int, float)) else tuple(factor)
        self.value_range = value_range

    def _changed(self, x):
        low, high = self.value_range
        by = float(generator().uniform(*self.factor)) * (high - low)
        return _elementwise.clip_by_value(x + of_host(np.float32(by)), float(low), float(high))


class RandomCrop(_Augmentation):
    def __init__(self, height, width, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.height, self.width = height, width

    def call(self, inputs, training=True):
        x = convert(inputs)
        sizes = x.shape.as_list()
        down, across = sizes[-3] - self.height, sizes[-2] - self.width
        if training:
            down, across = int(generator().integers(0, down + 1)), int(generator().integers(0, across + 1))
        else:
            down, across = down // 2, across // 2
        return x[..., down:down + self.height, across:across + self.width, :]


class RandomTranslation(_Augmentation):
    def __init__(self, height_factor, width_factor, fill_mode="reflect", interpolation="bilinear", seed=None, **kwargs):
        super().__init__(**kwargs)
        self.factors = [(-one, one) if isinstance(one, (int, float)) else tuple(one) for one in (height_factor,
                                                                                                 width_factor)]
        self.fill_mode = fill_mode

    def _changed(self, x):
        for axis, (low, high) in zip((x.ndim - 3, x.ndim - 2), self.factors):
            size = x.shape[axis]
            by = int(round(float(generator().uniform(low, high)) * size))
            if by:
                sides = [(0, 0)] * x.ndim
                sides[axis] = (max(by, 0), max(-by, 0))
                x = _array.pad(x, sides, "REFLECT" if self.fill_mode == "reflect" else "CONSTANT")
                cut = [slice(None)] * x.ndim
                cut[axis] = slice(0, size) if by > 0 else slice(-by, -by + size)
                x = x[tuple(cut)]
        return x


class CategoryEncoding(Layer):
    def __init__(self, num_tokens=None, output_mode="multi_hot", **kwargs):
        super().__init__(**kwargs)
        self.num_tokens, self.output_mode = num_tokens, output_mode

    def call(self, inputs):
        from ..._reduce import reduce_max, reduce_sum
        hot = _array.one_hot(_elementwise.cast(inputs, _types.int32), self.num_tokens)
        if self.output_mode == "one_hot":
            return hot if convert(inputs).shape[-1] != 1 or convert(inputs).ndim == 1 else _array.squeeze(hot, -2)
        return reduce_max(hot, -2) if self.output_mode == "multi_hot" else reduce_sum(hot, -2)


class Discretization(Layer):
    def __init__(self, bin_boundaries=None, **kwargs):
        super().__init__(**kwargs)
        self.bin_boundaries = bin_boundaries

    def call(self, inputs):
        array = np.digitize(convert(inputs).host_array(), np.asarray(self.bin_boundaries))
        return of_host(array.astype(np.int64))
