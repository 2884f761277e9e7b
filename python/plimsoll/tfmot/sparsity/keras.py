"""tfmot.sparsity.keras: layers whose small weights become zero while they train."""
import numpy as np

from ...tf import keras as _keras
from ...tf._absent import absent
from ...tf._call import Mode
from ...tf._tensor import of_host
from ...tf.errors import InvalidArgumentError
from ...tf.keras import callbacks as _callbacks
from ...tf.keras import layers as _layers
from ...tf.keras.models import Sequential, clone_model
from ...tf.keras.optimizers._base import HostVariable
from .schedules import ConstantSparsity, PolynomialDecay, PruningSchedule

_PRUNED = {"Dense": ["kernel"], "Conv1D": ["kernel"], "Conv2D": ["kernel"], "Conv3D": ["kernel"],
           "Conv2DTranspose": ["kernel"], "Conv1DTranspose": ["kernel"], "Conv3DTranspose": ["kernel"],
           "SeparableConv2D": ["pointwise_kernel"], "Embedding": ["embeddings"], "EinsumDense": ["kernel"]}
_CELLS = {"LSTM": ["kernel", "recurrent_kernel"], "GRU": ["kernel", "recurrent_kernel"],
          "SimpleRNN": ["kernel", "recurrent_kernel"]}
_PLAIN = (_layers.Flatten, _layers.Dropout, _layers.Activation, _layers.Reshape, _layers.BatchNormalization,
          _layers.LayerNormalization, _layers.InputLayer)


class PrunableLayer:
    """A layer of the program's own that says which of its weights are pruned."""

    def get_prunable_weights(self):
        raise NotImplementedError


def _holder_of(layer):
    """The layer itself, or its cell, and the names of its weights that are pruned."""
    name = type(layer).__name__
    if name in _PRUNED:
        return layer, _PRUNED[name]
    if name in _CELLS:
        return layer.cell, _CELLS[name]
    return layer, []


class PruneLowMagnitude(_layers.Layer):
    """Another layer with masks beside its weights."""

    def __init__(self, layer, pruning_schedule=None, block_size=(1, 1), block_pooling_type="AVG", sparsity_m_by_n=None,
                 **kwargs):
        kwargs.setdefault("name", f"prune_low_magnitude_{layer.name}")
        super().__init__(**kwargs)
        if block_pooling_type not in ("AVG", "MAX"):
            raise ValueError(f"Unsupported pooling type '{block_pooling_type}'. Should be 'AVG' or 'MAX'.")
        self.layer = layer
        self.pruning_schedule = pruning_schedule or PolynomialDecay(0.0, 0.5, 0, 1000)
        self.block_size, self.block_pooling_type, self.sparsity_m_by_n = tuple(block_size), block_pooling_type, \
            tuple(sparsity_m_by_n) if sparsity_m_by_n else None
        self.pruning_step = HostVariable(np.int64(-1), trainable=False, name="pruning_step")
        self.masks = []
        self._given_shape = layer.__dict__.get("_given_shape")
        self.supports_masking = layer.supports_masking
        if layer.built:
            self._add_masks()
            self.built = True

    def build(self, input_shape=None):
        if not self.layer.built:
            self.layer.build(input_shape)
            self.layer.built = True
        self._add_masks()
        self.built = True

    def get_prunable_weights(self):
        if isinstance(self.layer, PrunableLayer):
            return self.layer.get_prunable_weights()
        holder, names = _holder_of(self.layer)
        return [getattr(holder, name) for name in names]

    def _add_masks(self):
        before, Mode.graph = Mode.graph, None
        for weight in self.get_prunable_weights():
            mask = self.add_weight(tuple(weight.shape), "ones", trainable=False, name="mask")
            self.masks.append((weight, mask))
        Mode.graph = before

    def call(self, inputs, training=None, **kwargs):
        if training and self.masks:
            self._update()
        return self.layer(inputs, training=training, **kwargs)

    def _update(self):
        step = int(self.pruning_step.numpy())
        if step < 0:
            raise InvalidArgumentError(message="Prune() wrapper requires the UpdatePruningStep callback to be provided "
                                               "during training. Please add it as a callback to your model.fit call.")
        if self.sparsity_m_by_n is not None:
            is_due, sparsity = step >= 0, None
        else:
            is_due, sparsity = self.pruning_schedule(step)
        if is_due:
            for weight, mask in self.masks:
                mask.assign(self._new_mask(weight.numpy(), sparsity))
        self.apply_masks()

    def apply_masks(self):
        for weight, mask in self.masks:
            weight.assign(weight._read() * mask._read())

    def _new_mask(self, weight, sparsity):
        size = np.abs(weight)
        if self.sparsity_m_by_n is not None:
            return _mask_m_by_n(size, *self.sparsity_m_by_n)
        if self.block_size != (1, 1):
            return _block_mask(size, sparsity, self.block_size, self.block_pooling_type)
        return (size >= _threshold(size, sparsity)).astype(np.float32)

    def compute_output_shape(self, input_shape):
        return self.layer.compute_output_shape(input_shape)

    def get_config(self):
        return {"name": self.name, "layer": self.layer, "pruning_schedule": self.pruning_schedule,
                "block_size": self.block_size, "block_pooling_type": self.block_pooling_type}


def _threshold(size, sparsity):
    flat = size.ravel()
    kept = int(max(np.round(np.float32(flat.size) * np.float32(1 - sparsity)), 1))
    return np.partition(flat, flat.size - kept)[flat.size - kept]


def _block_mask(size, sparsity, block, pooling):
    if size.ndim != 2:
        return (size >= _threshold(size, sparsity)).astype(np.float32)
    rows, columns = (-(-have // wide) for have, wide in zip(size.shape, block))
    padded = np.zeros((rows * block[0], columns * block[1]), np.float32)
    padded[:size.shape[0], :size.shape[1]] = size
    parts = padded.reshape(rows, block[0], columns, block[1])
    if pooling == "MAX":
        pooled = parts.max((1, 3))
    else:
        counts = np.zeros_like(padded)
        counts[:size.shape[0], :size.shape[1]] = 1
        pooled = parts.sum((1, 3)) / counts.reshape(parts.shape).sum((1, 3))
    mask = (pooled >= _threshold(pooled, sparsity)).astype(np.float32)
    return np.kron(mask, np.ones(block, np.float32))[:size.shape[0], :size.shape[1]]


def _mask_m_by_n(size, zeros, of):
    """Of `of` neighbours along the inputs `zeros` are zero."""
    moved = np.moveaxis(size, -2, -1) if size.ndim > 1 else size
    flat = moved.reshape(-1, moved.shape[-1])
    wide = -(-flat.shape[1] // of) * of
    padded = np.zeros((flat.shape[0], wide), np.float32)
    padded[:, :flat.shape[1]] = flat
    groups = padded.reshape(-1, of)
    order = np.argsort(-groups, axis=1, kind="stable")[:, :of - zeros]
    mask = np.zeros_like(groups)
    np.put_along_axis(mask, order, 1.0, 1)
    mask = mask.reshape(flat.shape[0], wide)[:, :flat.shape[1]].reshape(moved.shape)
    return np.moveaxis(mask, -1, -2) if size.ndim > 1 else mask


def _is_prunable(layer):
    return bool(_holder_of(layer)[1]) or isinstance(layer, PrunableLayer)


def prune_low_magnitude(to_prune, pruning_schedule=None, block_size=(1, 1), block_pooling_type="AVG", pruning_policy=None,
                        sparsity_m_by_n=None, **kwargs):
    """A model, a list of layers or a layer with masks beside its weights."""
    schedule = pruning_schedule if pruning_schedule is not None else ConstantSparsity(0.5, 0)

    def wrap(layer):
        if isinstance(layer, PruneLowMagnitude):
            return layer
        if pruning_policy is not None and not pruning_policy.allow_pruning(layer):
            return layer
        return PruneLowMagnitude(layer, schedule, block_size, block_pooling_type, sparsity_m_by_n, **kwargs)

    if isinstance(to_prune, list):
        return [wrap(one) for one in to_prune]
    if isinstance(to_prune, Sequential) or (isinstance(to_prune, _keras.Model) and to_prune._functional):
        if not to_prune.built:
            raise ValueError("prune_low_magnitude: the model has no weights yet. Build it, give its first layer an "
                             "input_shape, or call it first")
        if isinstance(to_prune, Sequential):
            to_prune._expect_shape()
        return clone_model(to_prune, clone_function=wrap)
    if isinstance(to_prune, _keras.Model):
        raise ValueError("Subclassed models are not supported currently: prune its layers, or write it as a functional model")
    if isinstance(to_prune, _layers.Layer):
        if not _is_prunable(to_prune) and not isinstance(to_prune, _PLAIN):
            raise ValueError(f"Please initialize `PruneLowMagnitude` with a supported layer. Layers should either be "
                             f"supported by the PruneRegistry (built-in keras layers) or should be a `PrunableLayer` "
                             f"instance. You passed: {type(to_prune)}")
        return wrap(to_prune)
    raise ValueError("`prune_low_magnitude` can only prune an object of the following types: keras.models.Sequential, keras "
                     f"functional model, keras.layers.Layer, list of keras.layers.Layer. You passed an object of type: "
                     f"{type(to_prune).__name__}.")


def strip_pruning(model):
    """The model without masks: its pruned weights stay zero."""
    if not isinstance(model, _keras.Model):
        raise ValueError(f"Expected model to be a `tf.keras.Model` instance but got: {model}")

    def unwrap(layer):
        if not isinstance(layer, PruneLowMagnitude):
            return layer
        if any(mask is not None for _, mask in layer.masks) and int(layer.pruning_step.numpy()) >= 0:
            layer.apply_masks()
        layer.layer._nodes.clear()
        return layer.layer
    return clone_model(model, clone_function=unwrap)


def _pruned(model):
    return [one for one in model._walk() if isinstance(one, PruneLowMagnitude)]


class UpdatePruningStep(_callbacks.Callback):
    """Tells the wrapped layers the number of the step."""

    def on_train_begin(self, logs=None):
        self.step = int(np.asarray(self.model.optimizer.iterations))

    def on_train_batch_begin(self, batch, logs=None):
        for layer in _pruned(self.model):
            layer.pruning_step.assign(of_host(np.int64(self.step)))
        self.step += 1

    def on_epoch_end(self, epoch, logs=None):
        for layer in _pruned(self.model):
            layer.apply_masks()


class PruningSummaries(_callbacks.TensorBoard):
    """TensorBoard with the share of zeros in each weight."""

    def __init__(self, log_dir, update_freq="epoch", **kwargs):
        if not isinstance(log_dir, str) or not log_dir:
            raise ValueError("`log_dir` must be a non-empty string. You passed `log_dir`=%s." % log_dir)
        super().__init__(log_dir=log_dir, update_freq=update_freq, **kwargs)

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, logs)
        for layer in _pruned(self.model):
            for weight, mask in layer.masks:
                share = 1 - float(np.mean(mask.numpy()))
                self._writer("metrics").scalar(f"{layer.name}/{weight.name}/sparsity", share, epoch)


class _Scope:
    """prune_scope: names that are known while a pruned model is loaded."""

    def __enter__(self):
        from ...tf.keras.models._saving import CustomObjects
        self._inner = CustomObjects({"PruneLowMagnitude": PruneLowMagnitude})
        self._inner.__enter__()

    def __exit__(self, *raised):
        self._inner.__exit__(*raised)


def prune_scope():
    return _Scope()


__getattr__ = absent("tfmot.sparsity.keras", globals(), {"PruneForLatencyOnXNNPack": "pruning_policy of your own"})
