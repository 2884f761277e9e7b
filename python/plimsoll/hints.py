"""Types of arguments that may be written in several ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Sequence, Union

if TYPE_CHECKING:
    from ._plimsoll import DType, Tensor


class SupportsArray(Protocol):
    """A NumPy array, or what becomes one."""

    def __array__(self) -> Any: ...


class SupportsDLPack(Protocol):
    """A tensor of another library."""

    def __dlpack__(self) -> Any: ...


TensorLike = Union["Tensor", float, int, bool, SupportsArray, SupportsDLPack, Sequence[Any]]
DTypeLike = Union["DType", str, type, Any]
