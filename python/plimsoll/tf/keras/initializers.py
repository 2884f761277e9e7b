"""tf.keras.initializers, with the formulas of Keras."""
import math

import numpy as np

from .. import _types
from .._random import generator, truncated
from .._tensor import of_host
from .._types import TensorShape, as_dtype
from ._state import snake_case


class Initializer:
    """Makes the first numbers of a weight."""

    def __call__(self, shape, dtype=None, **kwargs):
        raise NotImplementedError("Initializer subclasses must implement the `__call__()` method.")

    def get_config(self):
        return {key.lstrip("_"): value for key, value in vars(self).items() if not key.startswith("__")}

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    def clone(self):
        return self.__class__.from_config(self.get_config())


def _sizes(shape):
    return tuple(TensorShape(shape))


def _made(array, dtype):
    return of_host(np.asarray(array, as_dtype(dtype or _types.float32).as_numpy_dtype))


class Zeros(Initializer):
    def __call__(self, shape, dtype=None, **kwargs):
        return _made(np.zeros(_sizes(shape), np.float32), dtype)


class Ones(Initializer):
    def __call__(self, shape, dtype=None, **kwargs):
        return _made(np.ones(_sizes(shape), np.float32), dtype)


class Constant(Initializer):
    def __init__(self, value=0.0):
        self.value = value

    def __call__(self, shape, dtype=None, **kwargs):
        return _made(np.broadcast_to(np.asarray(self.value), _sizes(shape)).copy(), dtype)


class RandomNormal(Initializer):
    def __init__(self, mean=0.0, stddev=0.05, seed=None):
        self.mean, self.stddev, self.seed = mean, stddev, seed

    def __call__(self, shape, dtype=None, **kwargs):
        drawn = generator(self.seed).standard_normal(_sizes(shape), np.float32)
        return _made(drawn * np.float32(self.stddev) + np.float32(self.mean), dtype)


class RandomUniform(Initializer):
    def __init__(self, minval=-0.05, maxval=0.05, seed=None):
        self.minval, self.maxval, self.seed = minval, maxval, seed

    def __call__(self, shape, dtype=None, **kwargs):
        drawn = generator(self.seed).random(_sizes(shape), np.float32)
        return _made(drawn * np.float32(self.maxval - self.minval) + np.float32(self.minval), dtype)


class TruncatedNormal(RandomNormal):
    def __call__(self, shape, dtype=None, **kwargs):
        return _made(truncated(generator(self.seed), _sizes(shape), self.mean, self.stddev), dtype)


def compute_fans(shape):
    shape = tuple(shape)
    if not shape:
        return 1, 1
    if len(shape) == 1:
        return shape[0], shape[0]
    field = int(np.prod(shape[:-2], dtype=np.int64))
    return shape[-2] * field, shape[-1] * field


class VarianceScaling(Initializer):
    def __init__(self, scale=1.0, mode="fan_in", distribution="truncated_normal", seed=None):
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError(f"Invalid `mode` argument: {mode}. Please use one of ['fan_in', 'fan_out', 'fan_avg']")
        self.scale, self.mode, self.seed = scale, mode, seed
        self.distribution = "truncated_normal" if distribution.lower() == "normal" else distribution.lower()

    def __call__(self, shape, dtype=None, **kwargs):
        sizes = _sizes(shape)
        fan_in, fan_out = compute_fans(sizes)
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        scale = self.scale / max(1.0, fan)
        draw = generator(self.seed)
        if self.distribution == "truncated_normal":
            return _made(truncated(draw, sizes, 0, math.sqrt(scale) / 0.87962566103423978), dtype)
        if self.distribution == "untruncated_normal":
            return _made(draw.standard_normal(sizes, np.float32) * np.float32(math.sqrt(scale)), dtype)
        limit = math.sqrt(3.0 * scale)
        return _made(draw.random(sizes, np.float32) * np.float32(2 * limit) - np.float32(limit), dtype)


def _family(scale, mode, distribution, title):
    class Family(VarianceScaling):
        def __init__(self, seed=None):
            super().__init__(scale, mode, distribution, seed)

        def get_config(self):
            return {"seed": self.seed}
    Family.__name__ = Family.__qualname__ = title
    return Family


GlorotUniform = _family(1.0, "fan_avg", "uniform", "GlorotUniform")
GlorotNormal = _family(1.0, "fan_avg", "truncated_normal", "GlorotNormal")
HeUniform = _family(2.0, "fan_in", "uniform", "HeUniform")
HeNormal = _family(2.0, "fan_in", "truncated_normal", "HeNormal")
LecunUniform = _family(1.0, "fan_in", "uniform", "LecunUniform")
LecunNormal = _family(1.0, "fan_in", "truncated_normal", "LecunNormal")


class Orthogonal(Initializer):
    def __init__(self, gain=1.0, seed=None):
        self.gain, self.seed = gain, seed

    def __call__(self, shape, dtype=None, **kwargs):
        sizes = _sizes(shape)
        rows, columns = int(np.prod(sizes[:-1])), sizes[-1]
        drawn = generator(self.seed).standard_normal((max(rows, columns), min(rows, columns)))
        q, r = np.linalg.qr(drawn)
        q *= np.sign(np.diag(r))
        return _made(self.gain * (q.T if rows < columns else q).reshape(sizes), dtype)


class Identity(Initializer):
    def __init__(self, gain=1.0):
        self.gain = gain

    def __call__(self, shape, dtype=None, **kwargs):
        return _made(self.gain * np.eye(*_sizes(shape)), dtype)


zeros, ones, constant, random_normal, random_uniform = Zeros, Ones, Constant, RandomNormal, RandomUniform
truncated_normal, variance_scaling, orthogonal, identity = TruncatedNormal, VarianceScaling, Orthogonal, Identity
glorot_uniform, glorot_normal, he_uniform, he_normal = GlorotUniform, GlorotNormal, HeUniform, HeNormal
lecun_uniform, lecun_normal = LecunUniform, LecunNormal

_CLASSES = [Zeros, Ones, Constant, RandomNormal, RandomUniform, TruncatedNormal, VarianceScaling, GlorotUniform,
            GlorotNormal, HeUniform, HeNormal, LecunUniform, LecunNormal, Orthogonal, Identity]
_BY_NAME = {snake_case(one.__name__): one for one in _CLASSES} | {one.__name__: one for one in _CLASSES}
_BY_NAME |= {"normal": RandomNormal, "uniform": RandomUniform, "zero": Zeros, "one": Ones,
             "IdentityInitializer": Identity, "OrthogonalInitializer": Orthogonal}


def get(identifier):
    if identifier is None:
        return None
    if isinstance(identifier, dict):
        return _BY_NAME[identifier["class_name"]](**identifier.get("config", {}))
    if isinstance(identifier, str):
        if identifier not in _BY_NAME:
            raise ValueError(f"Could not interpret initializer identifier: {identifier}")
        return _BY_NAME[identifier]()
    if isinstance(identifier, type):
        return identifier()
    if callable(identifier):
        return identifier
    if isinstance(identifier, (np.ndarray, int, float)):
        return Constant(identifier)
    raise ValueError(f"Could not interpret initializer identifier: {identifier}")


def serialize(initializer):
    return {"class_name": type(initializer).__name__, "config": initializer.get_config()}


deserialize = get
