"""Losses with the formulas of Keras, from logits."""

from ._plimsoll import Loss as Loss
from ._plimsoll.losses import *  # noqa: F403
