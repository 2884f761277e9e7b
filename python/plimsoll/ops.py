"""Every operator as a function over tensors."""

from ._plimsoll.ops import *  # noqa: F403
