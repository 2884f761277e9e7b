"""keras.Model: compile, fit, evaluate, predict, and what sub-classes may replace."""
import numpy as np

from ... import _engine, nest
from ..._call import Mode
from ..._convert import convert
from ..._tape import GradientTape
from ..._types import float32
from .. import callbacks as callbacks_module
from .. import optimizers
from .._state import Training, policy
from ..layers._base import Layer
from ..metrics import Mean
from ._batches import DatasetBatches, batches_of, split_off, unpack_x_y_sample_weight
from ._objectives import CompiledLoss, CompiledMetrics, number


class Model(Layer):
    """A layer that is trained. Model(inputs, outputs) makes a functional one."""

    def __new__(cls, *args, **kwargs):
        if cls is Model and (len(args) >= 2 or "outputs" in kwargs):
            from ._functional import Functional
            return Functional.__new__(Functional, *args, **kwargs)
        model = Layer.__new__(cls, *args, **kwargs)
        for name, value in (("optimizer", None), ("_compiled_loss", None), ("_compiled_metrics", None),
                            ("stop_training", False), ("history", None), ("_loss_tracker", None), ("_output_trackers", {}),
                            ("loss", None), ("_steps", 0)):
            object.__setattr__(model, name, value)
        return model

    def __init__(self, *args, **kwargs):
        if args or "inputs" in kwargs:
            # Model(inputs, outputs) of a sub-class: a functional model with methods of its own.
            from ._functional import Functional
            inputs = kwargs.pop("inputs", None)
            outputs = kwargs.pop("outputs", None)
            given = list(args)
            inputs = given.pop(0) if inputs is None else inputs
            outputs = given.pop(0) if outputs is None else outputs
            Layer.__init__(self, **kwargs)
            Functional._connect(self, inputs, outputs)
            self._functional = True
        else:
            super().__init__(**kwargs)

    _functional = False

    def call(self, inputs, training=None, mask=None):
        if self._functional:
            from ._functional import Functional
            return Functional.call(self, inputs, training, mask)
        raise NotImplementedError(f"Model {type(self).__name__} does not have a `call()` method implemented.")

    def _own_layers(self):
        return self._layers

    @property
    def layers(self):
        return [one for one in self._own_layers() if not getattr(one, "_is_metric", False)]

    def get_layer(self, name=None, index=None):
        if index is not None:
            return self.layers[index]
        for one in self.layers:
            if one.name == name:
                return one
        raise ValueError(f"No such layer: {name}. Existing layers are: {[one.name for one in self.layers]}.")

    # Compiling.

    def compile(self, optimizer="rmsprop", loss=None, metrics=None, loss_weights=None, weighted_metrics=None,
                run_eagerly=False, steps_per_execution=1, jit_compile="auto", auto_scale_loss=True, **kwargs):
        optimizer = optimizers.get(optimizer)
        if policy().name == "mixed_float16" and auto_scale_loss and not isinstance(optimizer,
                                                                                   optimizers.LossScaleOptimizer):
            optimizer = optimizers.LossScaleOptimizer(optimizer)
        self.optimizer = optimizer
        self.loss = loss
        self.run_eagerly = run_eagerly
        object.__setattr__(self, "_compiled_loss", CompiledLoss(loss, loss_weights) if loss is not None else None)
        object.__setattr__(self, "_compiled_metrics", CompiledMetrics(metrics, weighted_metrics)
                           if metrics or weighted_metrics else None)
        object.__setattr__(self, "_loss_tracker", Mean("loss"))
        object.__setattr__(self, "_output_trackers", {})
        self.compiled = True

    compiled = False
    _parts = None

    def _expect_compiled(self):
        if not self.compiled:
            raise ValueError("You must call `compile()` before using the model.")

    @property
    def metrics(self):
        found = [self._loss_tracker] if self._loss_tracker is not None else []
        found += [tracker for tracker in self._output_trackers.values()]
        found += [one for layer in self._walk() for one in layer._metrics]
        return found + (self._compiled_metrics.metrics if self._compiled_metrics is not None else [])

    @property
    def metrics_names(self):
        return [one.name for one in self.metrics]

    def reset_metrics(self):
        for one in self.metrics:
            one.reset_state()

    # As Keras 2 named them, for train_step of sub-classes.

    @property
    def compiled_loss(self):
        def call(y, y_pred, sample_weight=None, regularization_losses=None):
            return self.compute_loss(None, y, y_pred, sample_weight)
        return call

    @property
    def compiled_metrics(self):
        return self._compiled_metrics if self._compiled_metrics is not None else _NoMetrics()

    # Steps, which sub-classes may replace.

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        total = None
        if self._compiled_loss is not None and y is not None:
            self._name_outputs(y_pred)
            total, parts = self._compiled_loss(y, y_pred, sample_weight)
            if len(parts) > 1:
                for name, part in zip(self._compiled_loss.names, parts):
                    if part is not None:
                        tracker = self._output_trackers.setdefault(name, Mean(f"{name}_loss"))
                        tracker.update_state(part, _batch_weight(y))
        for one in self.losses:
            one = convert(one, hint=float32)
            if one.ndim:
                from ..._reduce import reduce_sum
                one = reduce_sum(one)
            total = one if total is None else total + one
        if total is None:
            raise ValueError("No loss to compute. Provide a `loss` argument in `compile()`.")
        return total

    def _name_outputs(self, y_pred):
        if self._compiled_loss.objects is None and isinstance(y_pred, (list, tuple)):
            names = self.output_names
            if names is not None and len(names) == len(y_pred):
                pass

    @property
    def output_names(self):
        return None

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        if self._compiled_metrics is not None and y is not None:
            self._compiled_metrics.update_state(y, y_pred, sample_weight)
        return self.get_metrics_result()

    def get_metrics_result(self):
        return {one.name: one for one in self.metrics}

    def train_step(self, data):
        x, y, sample_weight = unpack_x_y_sample_weight(data)
        with GradientTape() as tape:
            y_pred = self._renamed(self(x, training=True))
            loss = self.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight)
            scaled = self.optimizer.scale_loss(loss)
        variables = self.trainable_weights
        gradients = tape.gradient(scaled, variables)
        self._loss_tracker.update_state(loss, _batch_weight(x))
        self.optimizer.apply_gradients(zip(gradients, variables))
        return self.compute_metrics(x, y, y_pred, sample_weight)

    def _renamed(self, outputs):
        names = self.output_names
        if isinstance(outputs, (list, tuple)) and names is not None and len(names) == len(outputs):
            return dict(zip(names, outputs))
        return outputs

    def test_step(self, data):
        x, y, sample_weight = unpack_x_y_sample_weight(data)
        y_pred = self._renamed(self(x, training=False))
        if self._compiled_loss is not None:
            self._loss_tracker.update_state(self.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight,
                                                              training=False), _batch_weight(x))
        return self.compute_metrics(x, y, y_pred, sample_weight)

    def predict_step(self, data):
        x, _, _ = unpack_x_y_sample_weight(data)
        return self(x, training=False)

    # Loops.

    def fit(self, x=None, y=None, batch_size=None, epochs=1, verbose="auto", callbacks=None, validation_split=0.0,
            validation_data=None, shuffle=True, class_weight=None, sample_weight=None, initial_epoch=0,
            steps_per_epoch=None, validation_steps=None, validation_batch_size=None, validation_freq=1,
            max_queue_size=None, workers=None, use_multiprocessing=None):
        self._expect_compiled()
        _note_workers(workers, use_multiprocessing, max_queue_size)
        if validation_split and validation_data is None:
            (x, y, sample_weight), (vx, vy, vw) = split_off(x, y, sample_weight, validation_split)
            validation_data = (vx, vy) if vw is None else (vx, vy, vw)
        batches = batches_of(x, y, sample_weight, batch_size, shuffle, class_weight)
        validation = _validation_of(validation_data, validation_batch_size or batch_size)
        steps = steps_per_epoch if steps_per_epoch is not None else batches.size
        run = callbacks_module.CallbackList(callbacks, self, add_history=True, verbose=_verbosity(verbose), epochs=epochs,
                                            steps=steps)
        self.stop_training = False
        run.on_train_begin()
        source, logs = None, {}
        for epoch in range(initial_epoch, epochs):
            self.reset_metrics()
            run.on_epoch_begin(epoch)
            if source is None or steps_per_epoch is None:
                source = iter(batches.epoch())
            logs, count, is_empty = self._epoch(source, batches, steps_per_epoch, run)
            if is_empty is not None:
                source = is_empty
            batches.on_epoch_end()
            if count == 0 and epoch == initial_epoch:
                raise ValueError("Unexpected result: there was no batch to train on. The input is empty")
            logs = {name: number(value.result() if hasattr(value, "result") else value) for name, value in logs.items()}
            if validation is not None and _is_due(epoch, validation_freq):
                measured = self._evaluate(validation, validation_steps, run)
                logs.update({"val_" + name: value for name, value in measured.items()})
            run.on_epoch_end(epoch, logs)
            if self.stop_training:
                break
        run.on_train_end(logs)
        return self.history

    def _epoch(self, source, batches, steps_per_epoch, run):
        """Steps of one epoch: its logs, how many steps there were, and another source when this one ended."""
        logs, count, restarted = {}, 0, None
        while steps_per_epoch is None or count < steps_per_epoch:
            batch = next(source, None)
            if batch is None:
                if steps_per_epoch is None or count == 0 and restarted is not None:
                    break
                if not isinstance(batches, DatasetBatches) and getattr(batches, "is_over", False) or restarted is not None:
                    _engine.note("ran out", "Your input ran out of data; interrupting training. Make sure that it can make "
                                            "at least `steps_per_epoch * epochs` batches: use .repeat()")
                    break
                source = restarted = iter(batches.epoch())
                continue
            run.on_train_batch_begin(count)
            logs = self._step(batch) or {}
            for one in self.metrics:
                one.settle()
            run.on_train_batch_end(count, logs)
            count += 1
            if self.stop_training:
                break
        return logs, count, restarted

    def _step(self, batch):
        if type(self).train_step is not Model.train_step:
            return self.train_step(batch)
        if self._parts is None:
            from ._parts import StepParts
            object.__setattr__(self, "_parts", StepParts(self))
        parts = self._parts.of(batch)
        return self.train_step(batch) if parts == 1 else self._parts.step(batch, parts)

    def evaluate(self, x=None, y=None, batch_size=None, verbose="auto", sample_weight=None, steps=None, callbacks=None,
                 return_dict=False, max_queue_size=None, workers=None, use_multiprocessing=None, **kwargs):
        self._expect_compiled()
        _note_workers(workers, use_multiprocessing, max_queue_size)
        batches = batches_of(x, y, sample_weight, batch_size)
        run = callbacks_module.CallbackList(callbacks, self, verbose=_verbosity(verbose), steps=batches.size)
        measured = self._evaluate(batches, steps, run)
        run.tell_evaluation(measured)
        if return_dict:
            return measured
        return next(iter(measured.values())) if len(measured) == 1 else list(measured.values())

    def _evaluate(self, batches, steps, run):
        self.reset_metrics()
        run.on_test_begin()
        logs = {}
        for count, batch in enumerate(batches.epoch()):
            if steps is not None and count >= steps:
                break
            run.on_test_batch_begin(count)
            logs = self.test_step(batch) or {}
            for one in self.metrics:
                one.settle()
            run.on_test_batch_end(count, logs)
        measured = {name: number(value.result() if hasattr(value, "result") else value) for name, value in logs.items()}
        run.on_test_end(measured)
        return measured

    def predict(self, x, batch_size=None, verbose="auto", steps=None, callbacks=None, max_queue_size=None, workers=None,
                use_multiprocessing=None):
        _note_workers(workers, use_multiprocessing, max_queue_size)
        batches = batches_of(x, None, None, batch_size)
        run = callbacks_module.CallbackList(callbacks, self, verbose=0, steps=batches.size)
        run.on_predict_begin()
        parts = []
        for count, batch in enumerate(batches.epoch()):
            if steps is not None and count >= steps:
                break
            run.on_predict_batch_begin(count)
            made = nest.map_structure(lambda one: np.asarray(one), self.predict_step(batch))
            parts.append(made)
            run.on_predict_batch_end(count, {"outputs": made})
        run.on_predict_end()
        if not parts:
            raise ValueError("Unexpected result of `predict_function` (Empty batch_outputs): there was no batch")
        return nest.map_structure(lambda *ones: np.concatenate(ones), *parts)

    def train_on_batch(self, x, y=None, sample_weight=None, class_weight=None, return_dict=False):
        self._expect_compiled()
        self.reset_metrics()
        batch = next(iter(batches_of(x, y, sample_weight, _length(x), class_weight=class_weight).epoch()))
        return self._listed(self.train_step(batch), return_dict)

    def test_on_batch(self, x, y=None, sample_weight=None, return_dict=False):
        self._expect_compiled()
        self.reset_metrics()
        return self._listed(self.test_step(next(iter(batches_of(x, y, sample_weight, _length(x)).epoch()))), return_dict)

    def predict_on_batch(self, x):
        return nest.map_structure(lambda one: np.asarray(one), self(nest.map_structure(convert, x), training=False))

    @staticmethod
    def _listed(logs, return_dict):
        logs = {name: number(value.result() if hasattr(value, "result") else value) for name, value in logs.items()}
        if return_dict:
            return logs
        return next(iter(logs.values())) if len(logs) == 1 else list(logs.values())

    def fit_generator(self, generator, **kwargs):
        return self.fit(generator, **kwargs)

    # Building, showing, saving.

    def build(self, input_shape=None):
        if type(self).call is Model.call and not self._functional:
            raise NotImplementedError(f"Model {type(self).__name__} has no call() to be built with")
        if input_shape is None or self.built:
            self.built = True
            return
        shapes = input_shape
        from ..._array import zeros
        from ..layers._base import _is_list_of_shapes

        def empty(shape):
            return zeros([1 if size is None else size for size in shape])
        given = [empty(one) for one in shapes] if _is_list_of_shapes(shapes) else empty(shapes)
        self.built = True
        before, Mode.graph = Mode.graph, None
        with Training(False):
            self.call(given)
        Mode.graph = before
        self._build_shape = input_shape

    def _build_for(self, args, kwargs):
        self._ensure_init()
        own = type(self).build
        if own is not Model.build and own.__qualname__.split(".")[0] not in ("Model", "Functional", "Sequential"):
            super()._build_for(args, kwargs)
        self._build_shape = nest.map_structure(lambda one: tuple(one.shape) if hasattr(one, "shape") else None, args[0]) \
            if args else None
        self.built = True

    def summary(self, line_length=None, positions=None, print_fn=None, expand_nested=False, show_trainable=False,
                layer_range=None):
        from ._summary import text_of
        (print_fn or print)(text_of(self))

    def save(self, filepath, overwrite=True, save_format=None, include_optimizer=True, **kwargs):
        from ._saving import save_model
        save_model(self, filepath, overwrite, include_optimizer)

    def export(self, filepath, **kwargs):
        raise NotImplementedError("plimsoll.tf writes no SavedModel: use model.save(\"model.keras\")")

    def save_weights(self, filepath, overwrite=True, **kwargs):
        from ._saving import save_weights
        save_weights(self, filepath, overwrite)

    def load_weights(self, filepath, skip_mismatch=False, **kwargs):
        from ._saving import load_weights
        load_weights(self, filepath, skip_mismatch)

    def to_json(self, **kwargs):
        import json
        from ._saving import description_of
        return json.dumps(description_of(self))

    @property
    def inputs(self):
        return None

    @property
    def outputs(self):
        return None

    def get_config(self):
        return Layer.get_config(self)


class _NoMetrics:
    metrics = []

    def update_state(self, *args, **kwargs):
        pass


def _length(x):
    return int(np.shape(nest.flatten(x)[0])[0])


def _batch_weight(x):
    first = next((one for one in nest.flatten(x) if hasattr(one, "shape") and len(one.shape)), None)
    return None if first is None else float(first.shape[0])


def _note_workers(workers, use_multiprocessing, max_queue_size):
    if workers is not None or use_multiprocessing is not None or max_queue_size is not None:
        _engine.note("workers", "workers, use_multiprocessing and max_queue_size have no meaning here (Keras 3 has removed "
                                "them too): the engine uses all threads it may")


def _verbosity(verbose):
    return 1 if verbose == "auto" else int(verbose)


def _is_due(epoch, frequency):
    if isinstance(frequency, (list, tuple, set)):
        return epoch + 1 in frequency
    return (epoch + 1) % frequency == 0


def _validation_of(data, batch_size):
    if data is None:
        return None
    if isinstance(data, (tuple, list)):
        x, y, weight = unpack_x_y_sample_weight(tuple(data))
        return batches_of(x, y, weight, batch_size)
    return batches_of(data)


