"""The only file that talks to the engine: its line, its eager code, its operators, and notes that are given once."""
import os
import sys

import numpy as np
import plimsoll

from . import _types
from .errors import InvalidArgumentError, ResourceExhaustedError

_noted = set()
_constants = set()
_MOST_CONSTANTS = 256  # different numbers that operators are made for; others are given as tensors, so that plans last


def note(key, text):
    """Says once what is different here from TensorFlow."""
    if key not in _noted:
        _noted.add(key)
        print("plimsoll.tf: " + text, file=sys.stderr)


class _Running:
    line = None
    eager = None
    limit = None    # as set_line was told
    scratch = None
    number = 0      # of variables made


def set_line(limit, scratch=None):
    """The line: bytes that the whole process may take, such as "256MiB". Before the first tensor is made."""
    if _Running.eager is not None:
        raise RuntimeError("tf.set_line: tensors exist already; set the line before anything else is done, or set "
                           "PLIMSOLL_LINE")
    _Running.limit, _Running.scratch = limit, scratch


def get_line():
    """The line that the program runs under: its limit, and what is used of it."""
    eager()
    return _Running.line


def eager():
    """The Eager in which all tensors are, opened when it is first needed."""
    if _Running.eager is None:
        limit = _Running.limit or os.environ.get("PLIMSOLL_LINE")
        scratch = _Running.scratch or os.environ.get("PLIMSOLL_SCRATCH") or ""
        if limit is None:
            _Running.line = plimsoll.Line(None, scratch=scratch)
            note("line", f"no line was given: {_Running.line.limit // 2**20} MiB of this machine are taken; set one by "
                         "tf.set_line(\"256MiB\") or PLIMSOLL_LINE=256MiB")
        else:
            _Running.line = plimsoll.Line(limit, scratch=scratch)
        _Running.eager = plimsoll.Eager(_Running.line)
        _Running.eager.__enter__()
        import atexit
        atexit.register(_close)
    return _Running.eager


def _close():
    running, _Running.eager = _Running.eager, None
    if running is not None:
        running.close()


_calls = {}


def op(name):
    """An operator of the engine, whose faults are told as TensorFlow tells them."""
    call = _calls.get(name)
    if call is None:
        eager()
        call = _calls[name] = _told(getattr(plimsoll.ops, name))
    return call


def _told(function):
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception as error:
            raise translated(error) from None
    return call


def translated(error):
    """An exception of the engine as one of tf.errors."""
    if isinstance(error, plimsoll.DoesNotFit):
        made = ResourceExhaustedError(message=str(error))
        for name in ("deficit", "line", "need", "smallest_line", "holders"):
            setattr(made, name, getattr(error, name))
        return made
    if isinstance(error, plimsoll.Error):
        return InvalidArgumentError(message=str(error))
    return error


def is_constant(number):
    """Whether operators may be made for this number: for the first few different ones."""
    if number in _constants:
        return True
    if len(_constants) < _MOST_CONSTANTS:
        _constants.add(number)
        return True
    return False


def upload(array, dtype=None):
    """The engine's tensor of an array."""
    eager()
    name = (dtype or _types.as_dtype(array.dtype)).name
    if name not in _types.ENGINE:
        if name not in _types.NEAREST:
            raise InvalidArgumentError(f"operators of the engine do not take {name}; tf.strings has those for text")
        nearest = _types.NEAREST[name]
        note(name, f"{name} is computed as {nearest.name}")
        name = nearest.name
    if array.size == 0:
        raise InvalidArgumentError(f"a tensor of shape {array.shape} has no elements, and the engine takes none")
    try:
        return plimsoll.tensor(np.ascontiguousarray(array) if array.ndim else array, dtype=name)
    except Exception as error:
        raise translated(error) from None


def download(core):
    try:
        return core.numpy()
    except Exception as error:
        raise translated(error) from None


def full(sizes, number, dtype):
    eager()
    try:
        return plimsoll.full(tuple(sizes), float(number), dtype)
    except Exception as error:
        raise translated(error) from None


def normal(sizes, mean, deviation):
    eager()
    return plimsoll.normal(tuple(sizes), mean, deviation)


def uniform(sizes, low, high):
    eager()
    return plimsoll.uniform(tuple(sizes), low, high)


def window(strides, pads, dilations, groups):
    return plimsoll.Window(strides=tuple(strides), pads=tuple(pads), dilations=tuple(dilations), groups=groups)


def shape(core):
    return core.shape


def rank(core):
    return core.ndim


def dtype(core):
    return _SHORT[core.dtype.name]


_SHORT = {long: short for long, short in _types.ENGINE.items()}


# Variables: named for good in the engine, so one that is let go of is given to the next of its shape.
_spare = {}


def variable(sizes, trainable):
    spare = _spare.get((tuple(sizes), bool(trainable)))
    if spare:
        return spare.pop()
    _Running.number += 1
    try:
        return eager().variable(f"v{_Running.number}", tuple(sizes), "zeros", bool(trainable))
    except Exception as error:
        raise translated(error) from None


def run():
    """All that is recorded."""
    try:
        eager().run()
    except Exception as error:
        raise translated(error) from None


def assign(core, how, value):
    """assign, assign_add or assign_sub of a variable."""
    try:
        getattr(core, how)(value)
    except Exception as error:
        raise translated(error) from None


def give_back(core, sizes, trainable):
    if _Running.eager is not None:
        _spare.setdefault((tuple(sizes), bool(trainable)), []).append(core)


def spare_variables():
    return sum(len(cores) for cores in _spare.values())


# Tapes.


def tape(watches_variables):
    eager()
    made = plimsoll.Tape(persistent=True, watch_accessed_variables=watches_variables)
    made.__enter__()
    return made


def gradient(of, target, sources, seed):
    """For each source a tensor, (rows, numbers) of a table, or None."""
    try:
        found = of.gradient(target, list(sources), output_gradients=seed)
    except Exception as error:
        raise translated(error) from None
    return [(one.value, one.rows) if isinstance(one, plimsoll.SparseGradient) else one for one in found]


def memory_facts():
    """What the process takes of the line: for tf.config.experimental.get_memory_info."""
    line = get_line()
    return {"current": int(line.used), "peak": int(line.peak)}


