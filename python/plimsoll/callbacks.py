"""Callbacks of fit: those of the engine, and a base for others, with the names of Keras."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Mapping

from ._plimsoll import EngineCallback, FitRun, format_bytes
from ._plimsoll.callbacks import (
    Checkpoint,
    CSVLogger,
    EarlyStopping,
    JSONLogger,
    LearningRateScheduler,
    ReduceLROnPlateau,
    TensorBoard,
)

if TYPE_CHECKING:
    from .models import Model

__all__ = [
    "CSVLogger",
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "EngineCallback",
    "JSONLogger",
    "LambdaCallback",
    "LearningRateScheduler",
    "ProgressBar",
    "ReduceLROnPlateau",
    "TensorBoard",
]

Logs = Mapping[str, float]


class Callback:
    """Called at the events of a training, which it may steer. An exception that it raises ends the training.

    self.model is the model, self.run the training under way: run.stop("why"), run.learning_rate, run.save_weights(path).
    """

    model: Model
    run: FitRun
    params: dict[str, Any]
    watches: tuple[str, ...] = ()  # numbers that it reads: a training that never has one is refused before it starts

    @property
    def step_interval(self) -> float | None:
        """Seconds that are at least between two calls after steps; None: it hears of no steps."""
        kind = type(self)
        own = {"on_train_batch_end", "on_test_batch_end"}.intersection(vars(self))
        hears = kind.on_train_batch_end is not Callback.on_train_batch_end or kind.on_test_batch_end is not Callback.on_test_batch_end
        return 0.0 if own or hears else None

    def set_model(self, model: Model) -> None:
        """Called by fit."""
        self.model = model

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Before the first step."""

    def on_train_end(self, logs: Logs | None = None) -> None:
        """After the last step."""

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        """Before the first step of an epoch, which are counted from 0 as in Keras."""

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """After an epoch and its validation."""

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """After a step; logs are means over the epoch so far."""

    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """After a step of the validation."""

    def on_event(self, event: str, run: FitRun) -> None:
        """Calls the functions above."""
        self.run = run
        if event == "before_training":
            self.params = {"epochs": run.epochs, "steps": run.steps_per_epoch or None}
            self._test_batches = 0
            self.on_train_begin({})
            self.on_epoch_begin(run.epoch - 1 if run.epoch else 0, {})
        elif event == "after_step":
            self.on_train_batch_end(run.epoch_steps - 1, run.logs)
        elif event == "after_validation_step":
            self.on_test_batch_end(self._test_batches, {})
            self._test_batches += 1
        elif event == "after_epoch":
            self._test_batches = 0
            self.on_epoch_end(run.epoch - 1, run.logs)
            if run.epoch < run.epochs and not run.is_stopping:
                self.on_epoch_begin(run.epoch, {})
        elif event == "after_training":
            self.on_train_end(run.logs)


class LambdaCallback(Callback):
    """A callback made of functions."""

    def __init__(
        self,
        on_epoch_begin: Any = None,
        on_epoch_end: Any = None,
        on_train_begin: Any = None,
        on_train_end: Any = None,
        on_train_batch_end: Any = None,
    ) -> None:
        for name, given in list(locals().items()):
            if name.startswith("on_") and given is not None:
                setattr(self, name, given)


class ProgressBar(Callback):
    """How far the training is: a bar that is drawn at most ten times a second in a terminal or a notebook, else a line for
    each epoch."""

    WIDTH = 24

    def __init__(self, stream: Any = None, is_live: bool | None = None) -> None:
        self._stream = stream or sys.stderr
        self._is_live = (self._stream.isatty() or "ipykernel" in sys.modules) if is_live is None else is_live
        self._began = 0.0

    @property
    def step_interval(self) -> float | None:
        return 0.1 if self._is_live else None

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self._began = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self._stream.write("\r" + self._text(batch + 1, logs or {}) + "\x1b[K")
        self._stream.flush()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        end = "\x1b[K\n" if self._is_live else "\n"
        self._stream.write(("\r" if self._is_live else "") + self._text(self.run.epoch_steps, logs or {}) + end)
        self._stream.flush()

    def on_train_end(self, logs: Logs | None = None) -> None:
        if self._is_live and not self.run.is_epoch_over:
            self._stream.write("\n")

    def _text(self, steps: int, logs: Logs) -> str:
        run = self.run
        of = run.steps_per_epoch
        seconds = time.monotonic() - self._began
        bar = ""
        if self._is_live and of:
            full = min(self.WIDTH, self.WIDTH * steps // of)
            bar = " [" + "=" * full + " " * (self.WIDTH - full) + "]"
        numbers = "".join(f"  {name} {value:.4g}" for name, value in logs.items() if name != "learning_rate")
        memory = f"  mem {format_bytes(run.measured_peak)} of {format_bytes(run.line)}" if run.line < 2**62 else ""
        return f"epoch {run.epoch}/{run.epochs}  {steps}{f'/{of}' if of else ''}{bar}  {seconds:.1f} s{numbers}{memory}"
