"""tf.keras.callbacks."""
import csv
import json
import os
import sys
import time

import numpy as np

from .._absent import absent


def _floats(logs):
    """Results as Python floats: metrics are asked now."""
    made = {}
    for name, value in (logs or {}).items():
        value = value.result() if getattr(value, "_is_metric", False) else value
        array = np.asarray(value)
        made[name] = float(array) if array.ndim == 0 else array
    return made


class Callback:
    """Told of what happens in training; all of it may be replaced."""

    def __init__(self):
        self.params = None
        self._model = None
        self.validation_data = None

    @property
    def model(self):
        return self._model

    def set_model(self, model):
        self._model = model

    def set_params(self, params):
        self.params = params

    def on_batch_begin(self, batch, logs=None):
        pass

    def on_batch_end(self, batch, logs=None):
        pass

    def on_train_batch_begin(self, batch, logs=None):
        self.on_batch_begin(batch, logs=logs)

    def on_train_batch_end(self, batch, logs=None):
        self.on_batch_end(batch, logs=logs)

    def on_epoch_begin(self, epoch, logs=None):
        pass

    def on_epoch_end(self, epoch, logs=None):
        pass

    def on_train_begin(self, logs=None):
        pass

    def on_train_end(self, logs=None):
        pass

    def on_test_begin(self, logs=None):
        pass

    def on_test_end(self, logs=None):
        pass

    def on_test_batch_begin(self, batch, logs=None):
        pass

    def on_test_batch_end(self, batch, logs=None):
        pass

    def on_predict_begin(self, logs=None):
        pass

    def on_predict_end(self, logs=None):
        pass

    def on_predict_batch_begin(self, batch, logs=None):
        pass

    def on_predict_batch_end(self, batch, logs=None):
        pass


class History(Callback):
    """The numbers of each epoch."""

    def __init__(self):
        super().__init__()
        self.history = {}

    def on_train_begin(self, logs=None):
        self.epoch = []

    def on_epoch_end(self, epoch, logs=None):
        self.epoch.append(epoch)
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)


class CallbackList:
    """All callbacks of a run."""

    def __init__(self, callbacks=None, model=None, add_history=False, add_progbar=False, verbose=0, **params):
        given = callbacks if isinstance(callbacks, (list, tuple)) else [] if callbacks is None else [callbacks]
        if isinstance(callbacks, CallbackList):
            given = callbacks.callbacks
        self.callbacks = [one for one in given if one is not None]
        self._progress = ProgbarLogger() if verbose else None
        if add_history:
            history = next((one for one in self.callbacks if isinstance(one, History)), None) or History()
            if history not in self.callbacks:
                self.callbacks.append(history)
            object.__setattr__(model, "history", history)
        if self._progress is not None:
            self.callbacks.append(self._progress)
        for one in self.callbacks:
            one.set_model(model)
            one.set_params({"verbose": verbose, **params})
        self._hears_batches = [one for one in self.callbacks if _replaces(one, "on_train_batch_end", "on_batch_end")]
        self._hears_tests = [one for one in self.callbacks if _replaces(one, "on_test_batch_end")]

    def on_train_batch_end(self, batch, logs=None):
        if self._hears_batches:
            logs = _floats(logs)
            for one in self._hears_batches:
                one.on_train_batch_end(batch, logs)

    def on_test_batch_end(self, batch, logs=None):
        if self._hears_tests:
            logs = _floats(logs)
            for one in self._hears_tests:
                one.on_test_batch_end(batch, logs)

    def tell_evaluation(self, logs):
        if self._progress is not None:
            self._progress.tell("", logs)

    def __getattr__(self, name):
        if not name.startswith("on_"):
            raise AttributeError(name)

        def call(*args, **kwargs):
            for one in self.callbacks:
                getattr(one, name)(*args, **kwargs)
        return call


def _replaces(callback, *names):
    return any(getattr(type(callback), name, None) is not getattr(Callback, name) for name in names) or any(
        name in vars(callback) for name in names)


class ProgbarLogger(Callback):
    """A line for each epoch."""

    def on_epoch_begin(self, epoch, logs=None):
        print(f"Epoch {epoch + 1}/{self.params.get('epochs')}")
        self._start, self._count = time.time(), 0

    def on_train_batch_begin(self, batch, logs=None):
        self._count = batch + 1

    def on_epoch_end(self, epoch, logs=None):
        seconds = time.time() - self._start
        each = 1000 * seconds / max(1, self._count)
        self.tell(f"{self._count}/{self._count} - {seconds:.0f}s - {each:.0f}ms/step - ", logs)

    @staticmethod
    def tell(before, logs):
        shown = [f"{name}: {value:.4f}" if abs(value) > 1e-3 else f"{name}: {value:.4e}" for name, value in
                 (logs or {}).items() if np.ndim(value) == 0]
        print(before + " - ".join(shown))
        sys.stdout.flush()


class LambdaCallback(Callback):
    def __init__(self, on_epoch_begin=None, on_epoch_end=None, on_train_begin=None, on_train_end=None,
                 on_train_batch_begin=None, on_train_batch_end=None, **kwargs):
        super().__init__()
        given = {"on_epoch_begin": on_epoch_begin, "on_epoch_end": on_epoch_end, "on_train_begin": on_train_begin,
                 "on_train_end": on_train_end, "on_train_batch_begin": on_train_batch_begin or kwargs.pop(
                     "on_batch_begin", None), "on_train_batch_end": on_train_batch_end or kwargs.pop("on_batch_end", None),
                 **kwargs}
        for name, function in given.items():
            if function is not None:
                setattr(self, name, function)


def _is_better(monitor, mode):
    """Whether a number improves on another."""
    if mode not in ("auto", "min", "max"):
        mode = "auto"
    if mode == "auto":
        mode = "max" if any(word in monitor for word in ("acc", "auc", "precision", "recall", "f1", "fmeasure", "iou")) \
            else "min"
    return (np.greater, -np.inf) if mode == "max" else (np.less, np.inf)


class EarlyStopping(Callback):
    def __init__(self, monitor="val_loss", min_delta=0, patience=0, verbose=0, mode="auto", baseline=None,
                 restore_best_weights=False, start_from_epoch=0):
        super().__init__()
        self.monitor, self.patience, self.verbose, self.baseline = monitor, patience, verbose, baseline
        self.min_delta, self.restore_best_weights, self.start_from_epoch = abs(min_delta), restore_best_weights, \
            start_from_epoch
        self.monitor_op, self._worst = _is_better(monitor, mode)
        self.stopped_epoch = self.wait = self.best_epoch = 0
        self.best = self.best_weights = None

    def on_train_begin(self, logs=None):
        self.wait = self.stopped_epoch = self.best_epoch = 0
        self.best, self.best_weights = None, None

    def _improves(self, value, reference):
        delta = self.min_delta if self.monitor_op is np.greater else -self.min_delta
        return self.monitor_op(value - delta, reference)

    def on_epoch_end(self, epoch, logs=None):
        current = (logs or {}).get(self.monitor)
        if current is None:
            from .. import _engine
            _engine.note(("monitor", self.monitor), f"Early stopping conditioned on metric `{self.monitor}` which is not "
                                                    f"available. Available metrics are: {','.join(logs or {})}")
            return
        if epoch < self.start_from_epoch:
            return
        if self.restore_best_weights and self.best_weights is None:
            self.best_weights, self.best_epoch = self.model.get_weights(), epoch
        self.wait += 1
        if self.best is None or self._improves(current, self.best):
            self.best, self.best_epoch = current, epoch
            if self.restore_best_weights:
                self.best_weights = self.model.get_weights()
            if self.baseline is None or self._improves(current, self.baseline):
                self.wait = 0
            return
        if self.wait >= self.patience and epoch > 0:
            self.stopped_epoch = epoch
            self.model.stop_training = True

    def on_train_end(self, logs=None):
        if self.stopped_epoch > 0 and self.verbose:
            print(f"Epoch {self.stopped_epoch + 1}: early stopping")
        if self.restore_best_weights and self.best_weights is not None:
            if self.verbose:
                print(f"Restoring model weights from the end of the best epoch: {self.best_epoch + 1}.")
            self.model.set_weights(self.best_weights)
            self.best_weights = None


class ModelCheckpoint(Callback):
    def __init__(self, filepath, monitor="val_loss", verbose=0, save_best_only=False, save_weights_only=False, mode="auto",
                 save_freq="epoch", initial_value_threshold=None, **kwargs):
        super().__init__()
        self.filepath, self.monitor, self.verbose = os.fspath(filepath), monitor, verbose
        self.save_best_only, self.save_weights_only, self.save_freq = save_best_only, save_weights_only, save_freq
        self.monitor_op, worst = _is_better(monitor, mode)
        self.best = worst if initial_value_threshold is None else initial_value_threshold
        self._batches = self._epoch = 0
        if save_weights_only and not self.filepath.endswith(".weights.h5"):
            raise ValueError("When using `save_weights_only=True` in `ModelCheckpoint`, the filepath provided must end in "
                             f"`.weights.h5` (Keras weights format). Received: filepath={self.filepath}")
        if not save_weights_only and not self.filepath.endswith((".keras", ".h5")):
            raise ValueError("The filepath provided must end in `.keras` (Keras model format). Received: filepath="
                             f"{self.filepath}")

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        self._batches += 1
        if self.save_freq != "epoch" and self._batches % int(self.save_freq) == 0:
            self._save(self._epoch, batch, logs)

    def on_epoch_end(self, epoch, logs=None):
        if self.save_freq == "epoch":
            self._save(epoch, None, logs)

    def _save(self, epoch, batch, logs):
        logs = _floats(logs)
        if self.save_best_only:
            current = logs.get(self.monitor)
            if current is None or not self.monitor_op(current, self.best):
                return
            if self.verbose:
                print(f"\nEpoch {epoch + 1}: {self.monitor} improved from {self.best:.5f} to {current:.5f}, saving model to "
                      f"{self.filepath}")
            self.best = current
        path = self.filepath.format(epoch=epoch + 1, **({"batch": batch + 1} if batch is not None else {}), **logs)
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        if self.save_weights_only:
            self.model.save_weights(path, overwrite=True)
        else:
            self.model.save(path, overwrite=True)


class LearningRateScheduler(Callback):
    def __init__(self, schedule, verbose=0):
        super().__init__()
        self.schedule, self.verbose = schedule, verbose

    def on_epoch_begin(self, epoch, logs=None):
        now = float(np.asarray(self.model.optimizer.learning_rate))
        try:
            rate = self.schedule(epoch, now)
        except TypeError:
            rate = self.schedule(epoch)
        if not isinstance(rate, (float, int, np.floating)) and not hasattr(rate, "dtype"):
            raise ValueError(f"The output of the `schedule` function should be a float. Got: {rate}")
        self.model.optimizer.learning_rate = float(np.asarray(rate))
        if self.verbose:
            print(f"\nEpoch {epoch + 1}: LearningRateScheduler setting learning rate to {float(np.asarray(rate))}.")

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None:
            logs["learning_rate"] = float(np.asarray(self.model.optimizer.learning_rate))


class ReduceLROnPlateau(Callback):
    def __init__(self, monitor="val_loss", factor=0.1, patience=10, verbose=0, mode="auto", min_delta=1e-4, cooldown=0,
                 min_lr=0.0, **kwargs):
        super().__init__()
        if factor >= 1.0:
            raise ValueError(f"ReduceLROnPlateau does not support a factor >= 1.0. Got factor={factor}")
        self.monitor, self.factor, self.patience, self.verbose = monitor, factor, patience, verbose
        self.min_delta, self.cooldown, self.min_lr = min_delta, cooldown, min_lr
        self._better, self.best = _is_better(monitor, mode)
        self.wait = self.cooldown_counter = 0
        self._mode = mode

    def on_train_begin(self, logs=None):
        self._better, self.best = _is_better(self.monitor, self._mode)
        self.wait = self.cooldown_counter = 0

    def on_epoch_end(self, epoch, logs=None):
        logs = logs if logs is not None else {}
        logs["learning_rate"] = float(np.asarray(self.model.optimizer.learning_rate))
        current = logs.get(self.monitor)
        if current is None:
            return
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.wait = 0
        delta = self.min_delta if self._better is np.greater else -self.min_delta
        if self._better(current - delta, self.best):
            self.best, self.wait = current, 0
        elif self.cooldown_counter <= 0:
            self.wait += 1
            if self.wait >= self.patience:
                old = float(np.float32(np.asarray(self.model.optimizer.learning_rate)))
                if old > float(np.float32(self.min_lr)):
                    new = max(old * self.factor, self.min_lr)
                    self.model.optimizer.learning_rate = new
                    if self.verbose:
                        print(f"\nEpoch {epoch + 1}: ReduceLROnPlateau reducing learning rate to {new}.")
                    self.cooldown_counter, self.wait = self.cooldown, 0


class CSVLogger(Callback):
    def __init__(self, filename, separator=",", append=False):
        super().__init__()
        self.filename, self.separator, self.append = os.fspath(filename), separator, append
        self._file = self._writer = self._keys = None

    def on_train_begin(self, logs=None):
        has_header = self.append and os.path.exists(self.filename) and os.path.getsize(self.filename) > 0
        self._file = open(self.filename, "a" if self.append else "w", newline="")
        self._has_header = has_header

    def on_epoch_end(self, epoch, logs=None):
        logs = logs or {}
        if self._keys is None:
            self._keys = sorted(logs)
            self._writer = csv.DictWriter(self._file, ["epoch", *self._keys], delimiter=self.separator)
            if not self._has_header:
                self._writer.writeheader()
        self._writer.writerow({"epoch": epoch, **{key: logs.get(key, "NA") for key in self._keys}})
        self._file.flush()

    def on_train_end(self, logs=None):
        self._file.close()
        self._writer = self._keys = None


class TerminateOnNaN(Callback):
    def on_train_batch_end(self, batch, logs=None):
        loss = (logs or {}).get("loss")
        if loss is not None and not np.isfinite(loss):
            print(f"Batch {batch}: Invalid loss, terminating training")
            self.model.stop_training = True


class TensorBoard(Callback):
    """The numbers of each epoch as event files that TensorBoard reads, for training and validation."""

    def __init__(self, log_dir="logs", histogram_freq=0, write_graph=True, write_images=False, write_steps_per_second=False,
                 update_freq="epoch", profile_batch=0, embeddings_freq=0, embeddings_metadata=None):
        super().__init__()
        self.log_dir = os.fspath(log_dir)
        self._writers = {}
        if histogram_freq or profile_batch or embeddings_freq or write_images:
            from .. import _engine
            _engine.note("tensorboard", "TensorBoard writes scalars here; histograms and profiles are in plimsoll's own "
                                        "event files and reports")

    def _writer(self, part):
        if part not in self._writers:
            from ..summary import create_file_writer
            self._writers[part] = create_file_writer(os.path.join(self.log_dir, part))
        return self._writers[part]

    def on_epoch_end(self, epoch, logs=None):
        for name, value in _floats(logs).items():
            part = "validation" if name.startswith("val_") else "train"
            if np.ndim(value) == 0:
                self._writer(part).scalar("epoch_" + name.removeprefix("val_"), value, epoch)

    def on_train_end(self, logs=None):
        for one in self._writers.values():
            one.close()
        self._writers = {}


class BackupAndRestore(Callback):
    """Weights after each epoch in a folder, from which an interrupted training goes on."""

    def __init__(self, backup_dir, save_freq="epoch", delete_checkpoint=True, **kwargs):
        super().__init__()
        self.backup_dir, self.delete_checkpoint = os.fspath(backup_dir), delete_checkpoint

    def _paths(self):
        return os.path.join(self.backup_dir, "latest.weights.h5"), os.path.join(self.backup_dir, "training_metadata.json")

    def on_train_begin(self, logs=None):
        weights, facts = self._paths()
        if os.path.exists(weights) and self.model.built:
            self.model.load_weights(weights)

    def on_epoch_end(self, epoch, logs=None):
        os.makedirs(self.backup_dir, exist_ok=True)
        weights, facts = self._paths()
        self.model.save_weights(weights)
        with open(facts, "w") as file:
            json.dump({"epoch": epoch + 1}, file)

    def on_train_end(self, logs=None):
        if self.delete_checkpoint:
            for path in self._paths():
                if os.path.exists(path):
                    os.unlink(path)


__getattr__ = absent("tf.keras.callbacks", globals(), {"RemoteMonitor": "LambdaCallback",
                                                       "SwapEMAWeights": "LambdaCallback"})
