"""Every operator as a function over tensors."""

from ._plimsoll.ops import *  # noqa: F403
from ._plimsoll import ops as _ops

__all__ = [name for name in dir(_ops) if not name.startswith("_")]
