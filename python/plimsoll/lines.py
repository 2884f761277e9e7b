"""The line that is used where a program gives none."""

from __future__ import annotations

import os
import sys

from ._plimsoll import Line, format_bytes

_default: Line | None = None


def set_line(line: Line | int | str, scratch: str = "") -> Line:
    """The line that is used from now on where none is given."""
    global _default
    _default = line if isinstance(line, Line) else Line(line, scratch=scratch)
    return _default


def default_line() -> Line:
    """The line of set_line, else of PLIMSOLL_LINE, else what the machine and its limits allow, which is said once."""
    global _default
    if _default is None:
        given = os.environ.get("PLIMSOLL_LINE", "")
        _default = Line(given or None, scratch=os.environ.get("PLIMSOLL_SCRATCH", ""))
        if not given:
            print(f"plimsoll: no line was given; it is {format_bytes(_default.limit)}, what this machine allows", file=sys.stderr)
    return _default


def line_or_default(line: Line | None) -> Line:
    """The line that is given, or the default one."""
    return default_line() if line is None else line
