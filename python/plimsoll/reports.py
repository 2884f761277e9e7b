"""What a plan, a training and a line tell: as values, as text, in a notebook, as a picture."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Sequence

from . import _plimsoll
from ._plimsoll import Line, Remedy, format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _table(rows: Sequence[tuple[str, str]], caption: str) -> str:
    cells = "".join(f"<tr><th style='text-align:left'>{html.escape(a)}</th><td>{html.escape(b)}</td></tr>" for a, b in rows)
    return f"<table><caption>{html.escape(caption)}</caption>{cells}</table>"


def _axes(axes: Any) -> Any:
    """Axes of matplotlib, made where none are given."""
    if axes is not None:
        return axes
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plot() needs matplotlib: pip install matplotlib") from error
    return pyplot.subplots()[1]


class Forecast:
    """What a step will take before it runs: whether it fits the line, its peak, its price, and what helps if not."""

    def __init__(self, core: _plimsoll.Forecast) -> None:
        self._core = core

    @property
    def fits(self) -> bool:
        """Whether it fits the line."""
        return self._core.fits

    @property
    def line(self) -> int:
        """Bytes that are allowed."""
        return self._core.line

    @property
    def peak(self) -> int:
        """The most that is held at once; when the step does not fit, what it needs."""
        return self._core.peak

    @property
    def smallest_line(self) -> int:
        """The smallest line under which a plan was made; 0: it was not searched for."""
        return self._core.smallest_line

    @property
    def slowdown(self) -> float:
        """Predicted time in percent more than that of the same step without a line."""
        return self._core.slowdown

    @property
    def is_bit_identical(self) -> bool:
        """Whether results are those of the step without a line, to the last bit."""
        return self._core.is_bit_identical

    @property
    def micro_batches(self) -> int:
        """That the batch is cut into; 1 is the whole batch."""
        return self._core.micro_batches

    @property
    def remedies(self) -> Sequence[Remedy]:
        """What helps where it does not fit: those that keep results first."""
        return self._core.remedies

    def to_dict(self) -> dict[str, Any]:
        """All that is known, as plain values."""
        values: dict[str, Any] = json.loads(self._core.json)
        return values

    def __str__(self) -> str:
        return str(self._core.text)

    def __repr__(self) -> str:
        fits = "fits" if self.fits else "does not fit"
        return f"<plimsoll.Forecast: {fits} {format_bytes(self.line)}, peak {format_bytes(self.peak)}>"

    def _repr_html_(self) -> str:
        rows = [("peak", format_bytes(self.peak)), ("line", format_bytes(self.line))]
        if self.smallest_line:
            rows.append(("smallest line", format_bytes(self.smallest_line)))
        if self.fits:
            rows.append(("slower than without a line", f"{self.slowdown:.1f} %"))
            rows.append(("micro-batches", str(self.micro_batches)))
            rows.append(("results", "bit-identical" if self.is_bit_identical else "equal but for rounding"))
        rows += [("remedy", remedy.text) for remedy in self.remedies]
        return _table(rows, "fits" if self.fits else "does not fit")

    def plot(self, axes: Axes | None = None) -> Axes:
        """The peak beside the line, by what holds it where that is known (matplotlib)."""
        axes = _axes(axes)
        tags: Mapping[str, int] = self.to_dict().get("by_tag") or {"peak": self.peak}
        bottom = 0.0
        for tag, held in tags.items():
            axes.bar(["plan"], [held / 2**20], bottom=[bottom], label=tag)
            bottom += held / 2**20
        axes.axhline(self.line / 2**20, color="black", linestyle="--", label="line")
        axes.set_ylabel("MiB")
        axes.legend()
        return axes


class History:
    """The numbers of a training, one for each epoch that has it: history["val_loss"]."""

    def __init__(self, core: _plimsoll.History) -> None:
        self.epoch: list[int] = [one.epoch for one in core.epochs]
        self.history: dict[str, list[float]] = {}
        for one in core.epochs:
            for name, value in one.logs.items():
                self.history.setdefault(name, []).append(value)
        self.stop_reason: str = core.stop_reason
        self.last_loss: float = core.last_loss
        self.skipped: int = core.skipped
        self.last_skipped: str = core.last_skipped
        self.validation_samples: int = core.validation_samples

    @property
    def was_stopped(self) -> bool:
        """Whether it ended before its last epoch."""
        return bool(self.stop_reason)

    def __getitem__(self, name: str) -> list[float]:
        if name not in self.history:
            raise KeyError(f"the history has no '{name}'; it has {', '.join(self.history)}")
        return self.history[name]

    def to_dict(self) -> dict[str, Any]:
        """All that is known, as plain values."""
        return {
            "epoch": list(self.epoch),
            "history": {name: list(values) for name, values in self.history.items()},
            "stop_reason": self.stop_reason,
            "last_loss": self.last_loss,
            "skipped": self.skipped,
        }

    def __repr__(self) -> str:
        last = ", ".join(f"{name} {values[-1]:.4g}" for name, values in self.history.items() if values)
        return f"<plimsoll.History of {len(self.epoch)} epochs: {last}>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in ["epoch", *self.history])
        body = ""
        for i, epoch in enumerate(self.epoch):
            cells = [f"{values[i]:.4g}" if i < len(values) else "" for values in self.history.values()]
            body += "<tr>" + "".join(f"<td>{cell}</td>" for cell in [str(epoch), *cells]) + "</tr>"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def plot(self, axes: Axes | None = None) -> Axes:
        """A curve for each number over the epochs (matplotlib)."""
        axes = _axes(axes)
        for name, values in self.history.items():
            if name != "learning_rate":
                axes.plot(self.epoch[: len(values)], values, label=name)
        axes.set_xlabel("epoch")
        axes.legend()
        return axes


class Evaluation(Mapping[str, float]):
    """What evaluate measured: means over the samples, the loss first."""

    def __init__(self, core: _plimsoll.Evaluation) -> None:
        self._values: dict[str, float] = core.values
        self.samples: int = core.samples

    def __getitem__(self, name: str) -> float:
        if name not in self._values:
            raise KeyError(f"there is no '{name}'; there are {', '.join(self._values)}")
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def to_dict(self) -> dict[str, float]:
        """The numbers by name."""
        return dict(self._values)

    def __repr__(self) -> str:
        return f"<plimsoll.Evaluation of {self.samples} samples: " + ", ".join(f"{k} {v:.4g}" for k, v in self.items()) + ">"

    def _repr_html_(self) -> str:
        return _table([(name, f"{value:.6g}") for name, value in self.items()], f"{self.samples} samples")


_TAGS = ("weights", "gradients", "optimiser", "activations", "workspace", "data", "staging", "runtime", "eager")


class LineReport:
    """What is held under a line now, by what it is for."""

    def __init__(self, line: Line) -> None:
        self.limit, self.used, self.free, self.peak = line.limit, line.used, line.free, line.peak
        self.by_tag: dict[str, int] = {tag: line.used_by(tag) for tag in _TAGS}
        self.text: str = line._report_text()

    def to_dict(self) -> dict[str, Any]:
        """All that is known, as plain values."""
        return {"limit": self.limit, "used": self.used, "free": self.free, "peak": self.peak, "by_tag": dict(self.by_tag)}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<plimsoll.LineReport: {format_bytes(self.used)} of {format_bytes(self.limit)} held>"

    def _repr_html_(self) -> str:
        rows = [(tag, format_bytes(held)) for tag, held in self.by_tag.items() if held]
        return _table([*rows, ("free", format_bytes(self.free))], f"line {format_bytes(self.limit)}")

    def plot(self, axes: Axes | None = None) -> Axes:
        """What is held, by what it is for (matplotlib)."""
        axes = _axes(axes)
        held = {tag: size / 2**20 for tag, size in self.by_tag.items() if size}
        axes.bar(list(held), list(held.values()))
        axes.axhline(self.limit / 2**20, color="black", linestyle="--")
        axes.set_ylabel("MiB")
        return axes
