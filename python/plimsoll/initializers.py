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


def GlorotUniform() -> Init:
    """Glorot's uniform; fans follow from the shape."""
    return Init.named("glorot_uniform")


def GlorotNormal() -> Init:
    """Glorot's normal; fans follow from the shape."""
    return Init.named("glorot_normal")


def HeUniform() -> Init:
    """He's uniform; fans follow from the shape."""
    return Init.named("he_uniform")


def HeNormal() -> Init:
    """He's normal; fans follow from the shape."""
    return Init.named("he_normal")


def LecunUniform() -> Init:
    """LeCun's uniform; fans follow from the shape."""
    return Init.named("lecun_uniform")


def LecunNormal() -> Init:
    """LeCun's normal; fans follow from the shape."""
    return Init.named("lecun_normal")


def Identity(gain: float = 1.0) -> Init:
    """The identity matrix."""
    return Init.identity(gain)
