"""Models: layers one after another, functions of symbolic tensors, or classes with call(self, inputs)."""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping, Sequence

from . import _plimsoll
from ._plimsoll import Freeze, Layer, Line, Optimizer, Pruning, Strategy, Symbol, Tensor, optimizers
from .callbacks import ProgressBar
from .data import Dataset, dataset_of
from .layers import _snake
from .lines import line_or_default
from .reports import Evaluation, Forecast, History

_OPTIMIZERS: dict[str, Callable[[], Optimizer]] = {
    "sgd": optimizers.SGD,
    "adam": optimizers.Adam,
    "adamw": optimizers.AdamW,
    "rmsprop": optimizers.RMSprop,
    "lion": optimizers.Lion,
    "adafactor": optimizers.Adafactor,
}


def optimizer_of(given: Optimizer | str) -> Optimizer:
    """An optimizer, or the one of that name with its defaults."""
    if isinstance(given, Optimizer):
        return given
    made = _OPTIMIZERS.get(str(given).lower())
    if made is None:
        raise ValueError(f"compile: there is no optimizer '{given}'; there are {', '.join(_OPTIMIZERS)}")
    return made()


def _named(tensors: Any, word: str) -> tuple[list[str], list[Tensor], bool]:
    """Names, tensors, and whether they were given by name."""
    if isinstance(tensors, Mapping):
        return list(tensors), list(tensors.values()), True
    if isinstance(tensors, (list, tuple)):
        given = list(tensors)
        names = [getattr(one, "label", "") or f"{word}_{i}" for i, one in enumerate(given)] if word == "input" else []
        if len(set(names)) != len(given):
            names = [f"{word}_{i}" for i in range(len(given))] if len(given) > 1 else [word]
        return names, given, False
    return [word], [tensors], False


class Model(Layer):
    """A model with one set of weights, whoever trains, loads, saves or calls it.

    Model(inputs, outputs) is what lies between them: tensors, lists or dicts of them that begin with Input. A class that
    derives from Model writes call(self, inputs), with training as a second argument where that matters.
    """

    def __init__(self, inputs: Any = None, outputs: Any = None, name: str = "") -> None:
        super().__init__(name=name)
        self._history_options: dict[str, Any] = {}
        if inputs is None:
            return
        if not name:
            self.name = "model"
        input_names, given, _ = _named(inputs, "input")
        output_names, made, by_name = _named(outputs, "output")
        self._set_model(_plimsoll.Model.functional(self.name, input_names, given, output_names, made), by_name)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Model:
        """A model that save wrote: graph and weights, without the program that made it."""
        return cls._of(_plimsoll.Model.load(path))

    @classmethod
    def _of(cls, core: _plimsoll.Model) -> Model:
        made = Model(name=core.name)
        made._set_model(core, len(core.outputs) > 1)
        return made

    @property
    def inputs(self) -> list[str]:
        """Names of what it takes."""
        return list(self.model.inputs)

    @property
    def outputs(self) -> list[str]:
        """Names of what it gives."""
        return list(self.model.outputs)

    @property
    def layers(self) -> list[Layer]:
        """The layers that are attributes of it, in order."""
        return [one for one in vars(self).values() if isinstance(one, Layer)]

    def _built(self, dataset: Dataset | None = None) -> _plimsoll.Model:
        """The engine's model; one that was never called is made for the elements of a dataset."""
        if not self.is_built:
            if dataset is None:
                raise _plimsoll_usage(f"'{type(self).__name__}' was not called yet; call it, or give it a dataset first")
            self._build(dataset._inputs_like())
        return self.model

    def compile(
        self,
        optimizer: Optimizer | str = "rmsprop",
        loss: Any = None,
        metrics: Sequence[Any] = (),
        *,
        objective: Callable[[dict[str, Tensor], dict[str, Tensor]], Tensor] | None = None,
        loss_weights: Mapping[str, float] | None = None,
        pruning: Any = None,
        seed: int = 1,
        levers: Mapping[str, bool] | None = None,
        policy: str = "float32",
        freeze: Freeze | Sequence[str] | None = None,
        accumulate: int = 1,
    ) -> None:
        """What training minimises, and how.

        loss: a name of Keras, one of plimsoll.losses, a function (y_true, y_pred), or a dict of these by output. objective:
        instead, a function of dicts of targets and outputs. levers: what the planner may do, by name: order, in_place,
        variants, recompute, micro_batch, spill. policy: float32, mixed_float16, mixed_bfloat16 or stored_bfloat16. freeze:
        patterns of weights that stay as they are. accumulate: batches for each update.
        """
        if freeze is not None and not isinstance(freeze, Freeze):
            freeze = Freeze(patterns=list(freeze))
        self._compiled = (
            optimizer_of(optimizer),
            loss,
            objective,
            None if loss_weights is None else dict(loss_weights),
            tuple(metrics),
            pruning,
            seed,
            None if levers is None else dict(levers),
            policy,
            freeze,
            accumulate,
        )
        self.optimizer = self._compiled[0]
        self._is_applied = False
        for one in loss.values() if isinstance(loss, Mapping) else [loss]:
            if isinstance(one, str):
                _plimsoll.Loss(one)  # a name that is unknown is told here
        for one in metrics:
            if isinstance(one, str):
                _plimsoll.Metric(one)

    def _ready(self, dataset: Dataset, is_batched: bool = True) -> _plimsoll.Model:
        core = self._built(dataset if is_batched or self.is_built else dataset.batch(1))
        if not getattr(self, "_is_applied", True):
            core.compile(*self._compiled)
            self._is_applied = True
        if getattr(self, "_pruning", None) is not None:
            core.prune(self._pruning)
            self._pruning = None
        return core

    def plan(self, x: Any, y: Any = None, line: Line | None = None, **options: Any) -> Forecast:
        """Whether fit fits the line and what it costs: takes the arguments of fit, reads no data."""
        dataset, under, given = self._arguments(x, y, line, options)
        return Forecast(self._ready(dataset, "batch_size" not in given).plan(dataset._core, under, **given))

    def fit(
        self,
        x: Any,
        y: Any = None,
        line: Line | None = None,
        *,
        epochs: int = 1,
        batch_size: int | None = None,
        validation_data: Any = None,
        validation_split: float = 0.0,
        shuffle: bool = True,
        callbacks: Sequence[Any] = (),
        verbose: bool | int | str = "auto",
        initial_epoch: int = 0,
        steps_per_epoch: int = 0,
        validation_steps: int = 0,
        validation_freq: int = 1,
        class_weight: Mapping[int, float] | None = None,
        sample_weight: str = "",
        workers: int = 1,
        strategy: Strategy | None = None,
        scratch: str | None = None,
        seed: int = 1,
    ) -> History:
        """Trains. fit(dataset, line, ...) or fit(x, y, line=line, ...) with arrays.

        A dataset has batches already, unless batch_size is given. Raises DoesNotFit before anything is read when it does
        not fit the line. Ctrl-C ends it after the step that is under way: the weights stay as that left them.
        """
        options = {
            "epochs": epochs,
            "batch_size": batch_size,
            "validation_data": validation_data,
            "validation_split": validation_split,
            "shuffle": shuffle,
            "callbacks": callbacks,
            "initial_epoch": initial_epoch,
            "steps_per_epoch": steps_per_epoch,
            "validation_steps": validation_steps,
            "validation_freq": validation_freq,
            "class_weight": class_weight,
            "sample_weight": sample_weight,
            "workers": workers,
            "strategy": strategy,
            "scratch": scratch,
            "seed": seed,
        }
        dataset, under, given = self._arguments(x, y, line, options)
        if verbose:
            given["callbacks"] = [*given.get("callbacks", ()), ProgressBar()]
        for callback in given.get("callbacks", ()):
            if hasattr(callback, "set_model"):
                callback.set_model(self)
        return History(self._ready(dataset, "batch_size" not in given).fit(dataset._core, under, **given))

    def evaluate(self, x: Any, y: Any = None, line: Line | None = None, *, batch_size: int = 32) -> Evaluation:
        """Means of the loss and the metrics over all samples of a dataset of batches, or of arrays."""
        dataset, under = _data(x, y, line, batch_size)
        return Evaluation(self._ready(dataset).evaluate(dataset._core, under))

    def predict(self, x: Any, line: Line | None = None, *, batch_size: int = 32, to: str | os.PathLike[str] | None = None) -> Any:
        """The outputs for a dataset of batches, or for an array, as NumPy arrays; to: an npy file instead, in constant
        memory."""
        dataset, under = _data(x, None, line, batch_size)
        core = self._ready(dataset) if hasattr(self, "_compiled") else self._built(dataset)
        if to is not None:
            core.predict_to(dataset._core, under, to)
            return None
        outputs = core.predict(dataset._core, under)
        return outputs[0] if len(outputs) == 1 else dict(zip(core.outputs, outputs))

    def summary(self, x: Any = None, line: Line | None = None, *, batch: int = 0) -> str:
        """Each layer: its output, weights, gradients, state, and what is kept or recomputed, as planned."""
        if x is None:
            return str(self._built().summary(batch))
        dataset, under = _data(x, None, line, 32)
        return str(self._ready(dataset).summary_on(dataset._core, under))

    def save(self, path: str | os.PathLike[str]) -> None:
        """A directory that needs no source code: graph, weights, types of inputs."""
        self.model.save(path)

    def save_weights(self, path: str | os.PathLike[str]) -> None:
        """A safetensors file, with the optimizer's state."""
        self.model.save_weights(path)

    def load_weights(self, path: str | os.PathLike[str]) -> None:
        """Takes effect at the next call."""
        self.model.load_weights(path)

    # Smaller models.

    def prune(self, pruning: Pruning) -> None:
        """The next fit makes weights of small magnitude zero, by a schedule that counts its steps."""
        self._pruning = pruning
        if self.is_built:
            self.model.prune(pruning)

    def strip(self, scratch: str | None = None) -> tuple[Model, _plimsoll.StripReport]:
        """The model with pruned weights stored as masks and values, and what that saved. It is not trained any more."""
        made, report = self.model.strip(scratch)
        return Model._of(made), report

    def quantize(
        self,
        calibration: Any,
        line: Line | None = None,
        *,
        method: str = "minmax",
        percentile: float = 99.999,
        bins: int = 0,
        all: bool = False,
        full_range: bool | None = None,
    ) -> tuple[Model, _plimsoll.QuantizeReport]:
        """Another model with weights and activations of 8 bits, for inference, and what that saved.

        Runs this one over batches of calibration data. method: minmax, percentile or entropy. all: also where f32 is
        predicted to be faster.
        """
        dataset, under = _data(calibration, None, line, 32)
        made, report = self.model.quantise(dataset._core, under, method, percentile, bins, all, full_range)
        return Model._of(made), report

    def adapt(self, rank: int = 8, alpha: float = 8.0, dropout: float = 0.0, targets: Sequence[str] = ()) -> Model:
        """The same model with adapters (LoRA) beside its products; train it with freeze=plimsoll.adapter_freeze()."""
        return Model._of(self.model.adapt(rank, alpha, dropout, list(targets)))

    def save_adapter(self, folder: str | os.PathLike[str]) -> None:
        """The adapters of an adapted model as a folder in PEFT's format."""
        self.model.save_adapter(folder)

    def load_adapter(self, folder: str | os.PathLike[str]) -> Model:
        """The model with the adapters of such a folder."""
        return Model._of(self.model.load_adapter(folder))

    def release(self) -> None:
        """Puts the weights into a temporary file: the line gets back what held them."""
        self.model.release()

    @property
    def bytes(self) -> _plimsoll.ModelBytes:
        """What its weights take, in memory and as a file."""
        return self.model.bytes

    def _arguments(self, x: Any, y: Any, line: Line | None, options: dict[str, Any]) -> tuple[Dataset, Line, dict[str, Any]]:
        """The dataset, the line, and the options that differ from the engine's own."""
        if isinstance(y, Line):
            y, line = None, y
        under = line_or_default(line)
        given = {name: value for name, value in options.items() if value is not None and value != ()}
        dataset = dataset_of(x, y)
        if "validation_data" in given:
            validation = given["validation_data"]
            given["validation_data"] = (dataset_of(*validation) if isinstance(validation, tuple) else dataset_of(validation))._core
        if not isinstance(x, Dataset):
            given.setdefault("batch_size", 32)
        if not given.get("sample_weight"):
            given.pop("sample_weight", None)
            if dataset._weight_name:
                given["sample_weight"] = dataset._weight_name
        if "callbacks" in given:
            given["callbacks"] = list(given["callbacks"])
        return dataset, under, given


def _plimsoll_usage(message: str) -> Exception:
    from .errors import UsageError

    return UsageError(message)


def _data(x: Any, y: Any, line: Line | None, batch_size: int) -> tuple[Dataset, Line]:
    if isinstance(y, Line):
        y, line = None, y
    dataset = dataset_of(x, y)
    return dataset if isinstance(x, Dataset) else dataset.batch(batch_size), line_or_default(line)


class Sequential(Model):
    """Each layer on what the one before gave."""

    def __init__(self, layers: Sequence[Layer | Callable[[Tensor], Tensor]] = (), name: str = "sequential") -> None:
        super().__init__(name=name)
        self._layers: list[Layer] = []
        for layer in layers:
            self.add(layer)

    def add(self, layer: Any) -> None:
        """One more layer at the end, before the model is first used."""
        if self.is_built:
            raise _plimsoll_usage("a model that was called can't get another layer")
        if isinstance(layer, Symbol):  # Input: what follows is given by the data
            return
        self._layers.append(layer if isinstance(layer, Layer) else _lambda(layer))

    @property
    def layers(self) -> list[Layer]:
        """Its layers."""
        return list(self._layers)

    def _build(self, inputs: Any) -> None:
        if not self._layers:
            raise _plimsoll_usage("a Sequential needs at least one layer")
        like = inputs[0] if isinstance(inputs, (list, tuple)) else inputs
        for layer in self._layers:  # those written in Python are made for their inputs, one after another
            if not layer.is_built:
                return self._build_by_call(like)
        self._set_model(_plimsoll.Model.sequential(self._layers, self.name), False)

    def _build_by_call(self, inputs: Any) -> None:
        from .layers import _build

        _build(self, inputs)

    def call(self, inputs: Tensor) -> Any:
        """Each layer on what the one before gave."""
        for layer in self._layers:
            inputs = layer(inputs)
        return inputs


def _lambda(function: Callable[[Tensor], Tensor]) -> Layer:
    from .layers import Lambda

    return Lambda(function, name=_snake(getattr(function, "__name__", "lambda")).strip("<>"))
