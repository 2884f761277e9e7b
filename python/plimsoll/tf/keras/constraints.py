"""tf.keras.constraints: what is done to a weight after each update."""
from .. import _elementwise, _reduce
from ._state import epsilon


class Constraint:
    """A function of a weight."""

    def __call__(self, w):
        return w

    def get_config(self):
        return dict(vars(self))


def _length(w, axis):
    return _elementwise.sqrt(_reduce.reduce_sum(_elementwise.square(w), axis, True))


class MaxNorm(Constraint):
    def __init__(self, max_value=2, axis=0):
        self.max_value, self.axis = max_value, axis

    def __call__(self, w):
        length = _length(w, self.axis)
        return w * (_elementwise.clip_by_value(length, 0.0, float(self.max_value)) / (length + epsilon()))


class NonNeg(Constraint):
    def __call__(self, w):
        return _elementwise.maximum(w, 0.0)


class UnitNorm(Constraint):
    def __init__(self, axis=0):
        self.axis = axis

    def __call__(self, w):
        return w / (_length(w, self.axis) + epsilon())


class MinMaxNorm(Constraint):
    def __init__(self, min_value=0.0, max_value=1.0, rate=1.0, axis=0):
        self.min_value, self.max_value, self.rate, self.axis = min_value, max_value, rate, axis

    def __call__(self, w):
        length = _length(w, self.axis)
        wanted = self.rate * _elementwise.clip_by_value(length, float(self.min_value), float(self.max_value)) \
            + (1 - self.rate) * length
        return w * (wanted / (length + epsilon()))


max_norm, non_neg, unit_norm, min_max_norm = MaxNorm, NonNeg, UnitNorm, MinMaxNorm
_BY_NAME = {"max_norm": MaxNorm, "non_neg": NonNeg, "unit_norm": UnitNorm, "min_max_norm": MinMaxNorm,
            "MaxNorm": MaxNorm, "NonNeg": NonNeg, "UnitNorm": UnitNorm, "MinMaxNorm": MinMaxNorm}


def get(identifier):
    if identifier is None or callable(identifier) and not isinstance(identifier, type):
        return identifier
    if isinstance(identifier, str) and identifier in _BY_NAME:
        return _BY_NAME[identifier]()
    raise ValueError(f"Could not interpret constraint identifier: {identifier}")


