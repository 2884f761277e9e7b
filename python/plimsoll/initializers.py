"""How weights start, with Keras' names and defaults."""

from __future__ import annotations

from ._plimsoll import Init


def Zeros() -> Init:
    """Zeros."""
    return Init.constant(0.0)


def Ones() -> Init:
    """Ones."""
    return Init.constant(1.0)


def Constant(value: float = 0.0) -> Init:
    """One number for every element."""
    return Init.constant(value)


def RandomNormal(mean: float = 0.0, stddev: float = 0.05) -> Init:
    """Normally distributed."""
    return Init.normal(mean, stddev)


def RandomUniform(minval: float = -0.05, maxval: float = 0.05) -> Init:
    """Evenly distributed."""
    return Init.uniform(minval, maxval)


def TruncatedNormal(mean: float = 0.0, stddev: float = 0.05) -> Init:
    """Normally distributed; values beyond two deviations are drawn again."""
    return Init.truncated_normal(mean, stddev)
