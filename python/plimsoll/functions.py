"""Functions of eager code that are traced once for each signature."""

from __future__ import annotations

import functools
from typing import Any, Callable, Generic, ParamSpec, TypeVar, overload

from . import _plimsoll
from ._plimsoll import Symbol, Tensor, Traces

P = ParamSpec("P")
R = TypeVar("R")


def _flatten(value: Any, tensors: list[Tensor], key: list[Any]) -> Any:
    """The structure with a number for each tensor; what is no tensor is part of the key."""
    if isinstance(value, Tensor):
        tensors.append(value)
        key.append("tensor")
        return _Slot(len(tensors) - 1)
    if isinstance(value, (list, tuple)):
        key.append((type(value).__name__, len(value)))
        items = [_flatten(item, tensors, key) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        key.append(("dict", tuple(value)))
        return {name: _flatten(item, tensors, key) for name, item in value.items()}
    if hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        return _flatten(_plimsoll.tensor(value), tensors, key)
    try:
        hash(value)
        key.append((type(value), value))
    except TypeError:
        key.append(("id", id(value)))
    return value


class _Slot:
    def __init__(self, number: int) -> None:
        self.number = number


def _fill(value: Any, tensors: list[Tensor]) -> Any:
    if isinstance(value, _Slot):
        return tensors[value.number]
    if isinstance(value, list):
        return [_fill(item, tensors) for item in value]
    if isinstance(value, tuple):
        return tuple(_fill(item, tensors) for item in value)
    if isinstance(value, dict):
        return {name: _fill(item, tensors) for name, item in value.items()}
    return value


class Function(Generic[P, R]):
    """A function that is traced once for each signature and then called without recording it again.

    A signature is the types and shapes of tensors and the values of everything else. Python's control flow decides while
    tracing.
    """

    def __init__(self, body: Callable[P, R], cache: int, cache_bytes: int | str, open_batch: bool) -> None:
        functools.update_wrapper(self, body)
        self._body = body
        self._traces = Traces(cache, cache_bytes, open_batch)
        self._signatures: dict[Any, int] = {}
        self._results: dict[int, Any] = {}

    @property
    def facts(self) -> dict[str, Any]:
        """How often it was traced and called, and the last warning."""
        return dict(self._traces.facts)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        tensors: list[Tensor] = []
        key: list[Any] = []
        structure = _flatten((args, kwargs), tensors, key)
        if any(not one.is_eager or isinstance(one, Symbol) for one in tensors):
            return self._body(*args, **kwargs)
        number = self._signatures.setdefault(tuple(key), len(self._signatures))

        def body(traced: list[Tensor]) -> list[Tensor]:
            given, named = _fill(structure, traced)
            made: list[Tensor] = []
            self._results[number] = _flatten(self._body(*given, **named), made, [])
            return made

        results = self._traces.call(tensors, number, body)
        return _fill(self._results[number], results)  # type: ignore[no-any-return]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self.__call__, instance)


@overload
def function(body: Callable[P, R], /) -> Function[P, R]: ...
@overload
def function(
    *, cache: int = 32, cache_bytes: int | str = "16MiB", open_batch: bool = False
) -> Callable[[Callable[P, R]], Function[P, R]]: ...
def function(body: Any = None, /, *, cache: int = 32, cache_bytes: int | str = "16MiB", open_batch: bool = False) -> Any:
    """Traces a function of tensors once for each signature.

    cache: traces that are kept; cache_bytes: that they take together; open_batch: the first dimension of every tensor is
    the batch, and one trace serves all batch sizes.
    """
    if body is None:
        return lambda given: Function(given, cache, cache_bytes, open_batch)
    return Function(body, cache, cache_bytes, open_batch)
