"""tf.train: Checkpoint and CheckpointManager."""
import os

import numpy as np

from ._absent import absent
from ._variable import Variable


def _variables_of(value, name):
    if isinstance(value, Variable):
        yield name, value
    elif hasattr(value, "weights") and hasattr(value, "trainable_weights"):
        for i, one in enumerate(value.weights):
            yield f"{name}/{i}/{getattr(one, 'path', one.name)}".replace(":", "_"), one
    elif hasattr(value, "apply_gradients"):
        for i, one in enumerate(value.variables):
            yield f"{name}/{i}", one
    elif isinstance(value, (list, tuple)):
        for i, one in enumerate(value):
            yield from _variables_of(one, f"{name}/{i}")


class _Status:
    def assert_consumed(self):
        return self

    def expect_partial(self):
        return self

    assert_existing_objects_matched = assert_consumed

    def initialize_or_restore(self, session=None):
        return self


class Checkpoint:
    """Variables, models and optimisers in one file."""

    def __init__(self, root=None, **kwargs):
        self._kept = dict(kwargs)
        if root is not None:
            self._kept["root"] = root
        for name, value in kwargs.items():
            setattr(self, name, value)
        from .keras.optimizers._base import HostVariable
        self.save_counter = HostVariable(np.int64(0), trainable=False, name="save_counter")

    def _all(self):
        for name, value in self._kept.items():
            if hasattr(value, "apply_gradients"):
                models = [one for one in self._kept.values() if hasattr(one, "trainable_weights")]
                for one in models:
                    if one.built and not value._variables:
                        value.build(one.trainable_weights)
            yield from _variables_of(value, name)

    def write(self, file_prefix, options=None):
        path = os.fspath(file_prefix)
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(path + ".npz.part", "wb") as file:
            np.savez(file, **{name.replace("/", "|"): np.asarray(one.numpy()) for name, one in self._all()})
        os.replace(path + ".npz.part", path + ".npz")
        with open(os.path.join(os.path.dirname(os.path.abspath(path)), "checkpoint"), "w") as file:
            file.write(f'model_checkpoint_path: "{os.path.basename(path)}"\n')
        return path

    def save(self, file_prefix, options=None):
        self.save_counter.assign_add(1)
        return self.write(f"{os.fspath(file_prefix)}-{int(self.save_counter)}")

    def restore(self, save_path, options=None):
        if save_path is None:
            return _Status()
        path = os.fspath(save_path) + ".npz"
        if not os.path.exists(path):
            from .errors import NotFoundError
            raise NotFoundError(message=f"Could not find checkpoint {save_path}")
        with np.load(path) as file:
            for name, one in self._all():
                key = name.replace("/", "|")
                if key in file:
                    one.assign(file[key])
        return _Status()

    read = restore


class CheckpointManager:
    def __init__(self, checkpoint, directory, max_to_keep, checkpoint_name="ckpt", **kwargs):
        self.checkpoint, self.directory, self.max_to_keep = checkpoint, os.fspath(directory), max_to_keep
        self._name, self.checkpoints = checkpoint_name, []
        latest = latest_checkpoint(self.directory)
        if latest is not None:
            self.checkpoints.append(latest)

    def save(self, checkpoint_number=None, check_interval=True, options=None):
        number = checkpoint_number
        if number is None:
            self.checkpoint.save_counter.assign_add(1)
            number = int(self.checkpoint.save_counter)
        path = self.checkpoint.write(os.path.join(self.directory, f"{self._name}-{int(number)}"))
        self.checkpoints.append(path)
        while self.max_to_keep and len(self.checkpoints) > self.max_to_keep:
            old = self.checkpoints.pop(0) + ".npz"
            if os.path.exists(old):
                os.unlink(old)
        return path

    @property
    def latest_checkpoint(self):
        return self.checkpoints[-1] if self.checkpoints else None

    def restore_or_initialize(self):
        if self.latest_checkpoint:
            self.checkpoint.restore(self.latest_checkpoint)
        return self.latest_checkpoint


def latest_checkpoint(checkpoint_dir, latest_filename=None):
    path = os.path.join(os.fspath(checkpoint_dir), "checkpoint")
    if not os.path.exists(path):
        return None
    with open(path) as file:
        return os.path.join(os.fspath(checkpoint_dir), file.readline().split('"')[1])


__getattr__ = absent("tf.train", globals(), {"Example": "numpy files, or plimsoll.data.Dataset.tfrecord"})
