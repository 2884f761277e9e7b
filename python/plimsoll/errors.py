"""What goes wrong, by kind: each is an exception with a message that says what, where and what to try."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Sequence


class Holder(NamedTuple):
    """Who holds memory: a row of a refusal."""

    name: str
    tag: str
    bytes: int


class Error(RuntimeError):
    """All errors of the engine."""


class UsageError(Error, ValueError):
    """A call that makes no sense."""


class DoesNotFit(Error, MemoryError):
    """A step does not fit below the line. Sizes are in bytes."""

    line: int  # what is allowed
    need: int  # all that must fit below the line at once
    smallest_line: int  # the same request works with this; 0: not known
    runtime: int  # of need: the process itself
    data: int  # of need: the buffers of the input
    others: int  # of need: other sessions and reservations on the same line
    tightest: str  # the operation at which the need is highest
    reason: str
    holders: Sequence[Holder]  # the largest first

    def __init__(self, message: str, **values: Any) -> None:
        super().__init__(message)
        self._values = values
        for name in ("line", "need", "smallest_line", "runtime", "data", "others"):
            setattr(self, name, values.get(name, 0))
        self.tightest = values.get("tightest", "")
        self.reason = values.get("reason", "")
        self.holders = values.get("holders", ())

    @property
    def deficit(self) -> int:
        """By how much it does not fit."""
        return max(0, self.need - self.line)

    def __reduce__(self) -> Any:
        return _remake, (str(self), self._values)


def _remake(message: str, values: dict[str, Any]) -> DoesNotFit:
    return DoesNotFit(message, **values)


class BadData(Error, ValueError):
    """Files or numbers that are damaged or not what they should be."""


class DiskFull(Error):
    """A disk has no room for what was to be written."""


class BadNumbers(Error, ArithmeticError):
    """Numbers became infinite or NaN."""


class RankLost(Error, ConnectionError):
    """One of the ranks that train together was killed, or does not answer."""


class Stopped(Error):
    """Work was stopped by a signal."""


# What messages of the engine call by its C++ names.
_WORDS = (
    (re.compile(r"Tape tape\(\{\.persistent = true\}\)"), "Tape(persistent=True)"),
    (re.compile(r"\bMemoryLine::process\("), "plimsoll.Line("),
    (re.compile(r"\bMemoryLine\b"), "plimsoll.Line"),
    (re.compile(r"\bCsvOptions::classes or ImageOptions::classes\b"), "class_names"),
    (re.compile(r"\b(?:Csv|Image)Options::classes\b"), "class_names"),
    (re.compile(r"\bSessionOptions::(\w+)"), r"\1"),
    (re.compile(r"\bOptimiser::"), "plimsoll.optimizers."),
    (re.compile(r"\bDataset::slices\b"), "Dataset.from_tensor_slices"),
    (re.compile(r"\bDataset::generator\b"), "Dataset.from_generator"),
    (re.compile(r"\b(Dataset|Model|Tape|Session|Step|Eager|Loss|Metric|Strategy|Predictor|Freeze)::"), r"\1."),
    (re.compile(r"\{\.(\w+) = ([^{}]*)\}"), r"\1=\2"),
    (re.compile(r"\boptimiser\b"), "optimizer"),
    (re.compile(r"\bstd::(?:vector|span|string)(?:<\w+>)?"), "list"),
)


def in_python_words(text: str) -> str:
    """A message of the engine with the names that Python programs use."""
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return text
