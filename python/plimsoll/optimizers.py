"""Optimizers with the formulas and defaults of Keras."""

from ._plimsoll import Optimizer as Optimizer
from ._plimsoll.optimizers import *  # noqa: F403
