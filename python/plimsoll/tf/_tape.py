"""tf.GradientTape, and the gradients of tf.compat.v1."""
import enum

import numpy as np

from . import _engine, nest
from ._convert import IndexedSlices, convert
from ._tensor import _TO_LAST, of_core, of_host


class UnconnectedGradients(enum.Enum):
    NONE = "none"
    ZERO = "zero"


class GradientTape:
    """Records what is computed in its `with`, so that it can be differentiated."""

    def __init__(self, persistent=False, watch_accessed_variables=True):
        self._persistent = persistent
        self._watches = watch_accessed_variables
        self._tape = None
        self._is_used = False
        self._watched = []

    def __enter__(self):
        if self._tape is not None:
            raise ValueError("Tape is already recording.")
        self._open()
        return self

    def _open(self):
        self._tape = _engine.tape(self._watches)

    def __exit__(self, *raised):
        pass

    def watch(self, tensor):
        for one in nest.flatten(tensor):
            tensor = one if hasattr(one, "is_variable") else convert(one)
            if not tensor.dtype.is_floating:
                _engine.note("watch", f"The dtype of the watched tensor must be floating (e.g. tf.float32), got "
                                      f"{tensor.dtype!r}")
                continue
            source = tensor.core if hasattr(one, "is_variable") else tensor.source
            tensor.forget_views()  # what was made of it before is not recorded
            self._tape.watch(source)
            self._watched.append(one)

    def watched_variables(self):
        return tuple(one for one in self._watched if hasattr(one, "is_variable"))

    def stop_recording(self):
        raise NotImplementedError("plimsoll.tf: a tape records all of its with; use tf.stop_gradient on what has no gradient")

    def reset(self):
        self._tape, self._watched = None, []
        self._open()

    def gradient(self, target, sources, output_gradients=None, unconnected_gradients=UnconnectedGradients.NONE):
        self._expect_open()
        zero = UnconnectedGradients(unconnected_gradients) is UnconnectedGradients.ZERO
        found = gradients_of(self._tape, target, nest.flatten(sources), output_gradients, zero)
        self._close_after_use()
        return nest.pack_sequence_as(sources, found) if nest.is_nested(sources) else found[0]

    def _expect_open(self):
        if self._is_used and not self._persistent:
            raise RuntimeError("A non-persistent GradientTape can only be used to compute one set of gradients (or "
                               "jacobians)")
        if self._tape is None:
            raise RuntimeError("The tape has recorded nothing: use it in a with statement")

    def _close_after_use(self):
        self._is_used = True
        if not self._persistent:
            self._tape.close()
            self._tape = None

    def jacobian(self, target, sources, unconnected_gradients=UnconnectedGradients.NONE, parallel_iterations=None,
                 experimental_use_pfor=True):
        self._expect_open()
        from ._array import reshape, stack
        target = convert(target)
        flat, count = nest.flatten(sources), int(np.prod(target.shape.as_list()))
        rows = []
        for i in range(count):
            seed = np.zeros(count, np.float32)
            seed[i] = 1
            rows.append(gradients_of(self._tape, target, flat, of_host(seed.reshape(target.shape.as_list())), False))
        made = []
        for j, one in enumerate(flat):
            parts = [row[j] for row in rows]
            made.append(None if parts[0] is None else reshape(
                stack([convert(part) for part in parts]), target.shape.as_list() + convert(one).shape.as_list()))
        self._close_after_use()
        return nest.pack_sequence_as(sources, made) if nest.is_nested(sources) else made[0]

    def batch_jacobian(self, target, source, unconnected_gradients=UnconnectedGradients.NONE, parallel_iterations=None,
                       experimental_use_pfor=True):
        self._expect_open()
        from ._array import reshape, stack
        target, source_ = convert(target), convert(source)
        sizes = target.shape.as_list()
        count, parts = int(np.prod(sizes[1:])), []
        for i in range(count):
            seed = np.zeros((sizes[0], count), np.float32)
            seed[:, i] = 1
            parts.append(gradients_of(self._tape, target, [source], of_host(seed.reshape(sizes)), True)[0])
        self._close_after_use()
        return reshape(stack(parts, axis=1), sizes + source_.shape.as_list()[1:])


def gradients_of(tape, target, sources, output_gradients=None, zero=False):
    """The gradients as tensors; None, or zeros, where there is no path."""
    targets = nest.flatten(target)
    seeds = nest.flatten(output_gradients) if output_gradients is not None else [None] * len(targets)
    total, seed = _joined(targets, seeds)
    usable, places = [], []
    for i, source in enumerate(sources):
        if hasattr(source, "is_variable"):
            if source._core is not None:
                usable.append(source._core)
                places.append(i)
        elif source is not None:
            source = convert(source)
            if source.dtype.is_floating and not source.is_on_host:
                usable.append(source.source)
                places.append(i)
    found = [None] * len(sources)
    if total is not None and usable:
        for i, made in zip(places, _engine.gradient(tape, total, usable, seed)):
            found[i] = _wrapped(made, sources[i])
    if zero:
        from ._array import zeros_like
        found = [zeros_like(source) if one is None else one for one, source in zip(found, sources)]
    return found


def _joined(targets, seeds):
    """One number, or one tensor with its seed, whose gradient is that of the sum of the targets."""
    parts = []
    for target, seed in zip(targets, seeds):
        target = convert(target)
        if target.dtype.is_floating and not (target.is_on_host and target._sizes == ()):
            parts.append((target, None if seed is None else convert(seed, hint=target.dtype)))
    if not parts:
        return None, None
    if len(parts) == 1:
        target, seed = parts[0]
        return target.core, None if seed is None else seed.core
    from ._elementwise import add, multiply
    from ._reduce import reduce_sum
    total = None
    for target, seed in parts:
        part = reduce_sum(target if seed is None else multiply(target, seed))
        total = part if total is None else add(total, part)
    return total.core, None


def _wrapped(made, source):
    if made is None:
        return None
    if isinstance(made, tuple):
        return IndexedSlices(of_core(made[0]), of_core(made[1]), np.array(tuple(source.shape)))
    if getattr(source, "_is_first", False):
        return of_core(_engine.op("transpose")(made, _TO_LAST[source.ndim]))
    return of_core(made)
