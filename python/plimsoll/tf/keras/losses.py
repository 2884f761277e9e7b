"""tf.keras.losses, with the formulas, reductions and defaults of Keras 3."""
import numpy as np

from .. import _array, _elementwise, _engine, _nn, _reduce, _types
from .._absent import absent
from .._call import operator
from .._convert import convert
from .._elementwise import cast, clip_by_value, log, maximum, multiply, square
from .._reduce import reduce_mean, reduce_sum
from .._tensor import of_core
from ._state import epsilon, snake_case


class Reduction:
    AUTO = "sum_over_batch_size"
    NONE = "none"
    SUM = "sum"
    SUM_OVER_BATCH_SIZE = "sum_over_batch_size"


def _both(y_true, y_pred):
    y_pred = convert(y_pred)
    y_true = convert(y_true, hint=y_pred.dtype)
    if y_true.dtype is not y_pred.dtype:
        y_true = cast(y_true, y_pred.dtype)
    return same_rank(y_true, y_pred)


def same_rank(y_true, y_pred):
    a, b = y_true.ndim, y_pred.ndim
    if a == b:
        return y_true, y_pred
    if a == b + 1 and y_true.shape[-1] == 1:
        return _array.squeeze(y_true, -1), y_pred
    if b == a + 1 and y_pred.shape[-1] == 1:
        return y_true, _array.squeeze(y_pred, -1)
    return y_true, y_pred


@operator
def mean_squared_error(y_true, y_pred):
    y_true, y_pred = _both(y_true, y_pred)
    return reduce_mean(square(y_true - y_pred), -1)


@operator
def mean_absolute_error(y_true, y_pred):
    y_true, y_pred = _both(y_true, y_pred)
    return reduce_mean(_elementwise.abs(y_true - y_pred), -1)


@operator
def mean_absolute_percentage_error(y_true, y_pred):
    y_true, y_pred = _both(y_true, y_pred)
    return 100.0 * reduce_mean(_elementwise.abs((y_true - y_pred) / maximum(_elementwise.abs(y_true), epsilon())), -1)


@operator
def mean_squared_logarithmic_error(y_true, y_pred):
    y_true, y_pred = _both(y_true, y_pred)
    return reduce_mean(square(log(maximum(y_pred, epsilon()) + 1.0) - log(maximum(y_true, epsilon()) + 1.0)), -1)


@operator
def huber(y_true, y_pred, delta=1.0):
    y_true, y_pred = _both(y_true, y_pred)
    error = _elementwise.abs(y_true - y_pred)
    return reduce_mean(_array.where(error <= delta, 0.5 * square(error), delta * error - 0.5 * delta * delta), -1)


@operator
def log_cosh(y_true, y_pred):
    y_true, y_pred = _both(y_true, y_pred)
    x = y_pred - y_true
    return reduce_mean(x + _elementwise.softplus(-2.0 * x) - float(np.log(2.0)), -1)


def _signed(y_true):
    """Labels 0 and 1 as -1 and 1."""
    return 2.0 * y_true - 1.0 if bool(np.isin(y_true.host_array(), (0, 1)).all()) else y_true


@operator
def hinge(y_true, y_pred):
    y_true, y_pred = _both(y_true, y_pred)
    return reduce_mean(maximum(1.0 - _signed(y_true) * y_pred, 0.0), -1)


@operator
def squared_hinge(y_true, y_pred):
    y_true, y_pred = _both(y_true, y_pred)
    return reduce_mean(square(maximum(1.0 - _signed(y_true) * y_pred, 0.0)), -1)


@operator
def categorical_hinge(y_true, y_pred):
    y_true, y_pred = _both(y_true, y_pred)
    right = reduce_sum(y_true * y_pred, -1)
    wrong = _reduce.reduce_max((1.0 - y_true) * y_pred, -1)
    return maximum(wrong - right + 1.0, 0.0)


@operator
def poisson(y_true, y_pred):
    y_true, y_pred = _both(y_true, y_pred)
    return reduce_mean(y_pred - y_true * log(y_pred + epsilon()), -1)


@operator
def kl_divergence(y_true, y_pred):
    y_true, y_pred = _both(y_true, y_pred)
    y_true, y_pred = clip_by_value(y_true, epsilon(), 1.0), clip_by_value(y_pred, epsilon(), 1.0)
    return reduce_sum(y_true * log(y_true / y_pred), -1)


@operator
def cosine_similarity(y_true, y_pred, axis=-1):
    y_true, y_pred = _both(y_true, y_pred)
    return -reduce_sum(_reduce.l2_normalize(y_true, axis) * _reduce.l2_normalize(y_pred, axis), axis)


def logits_of(y_pred, from_logits, kind):
    """The logits, where they were given or are known of the probabilities; else None."""
    if from_logits:
        return y_pred
    known = getattr(y_pred, "logits", None)
    return known[1] if known is not None and known[0] == kind else None


@operator
def binary_crossentropy(y_true, y_pred, from_logits=False, label_smoothing=0.0, axis=-1):
    given = convert(y_pred)
    x = logits_of(given, from_logits, "sigmoid")
    y_true, y_pred = _both(y_true, given if x is None else x)
    if label_smoothing:
        y_true = y_true * (1.0 - label_smoothing) + 0.5 * label_smoothing
    if x is not None:
        return reduce_mean(_nn.sigmoid_cross_entropy_with_logits(y_true, y_pred), axis)
    p = clip_by_value(y_pred, epsilon(), 1.0 - epsilon())
    return -reduce_mean(y_true * log(p) + (1.0 - y_true) * log(1.0 - p), axis)


@operator
def binary_focal_crossentropy(y_true, y_pred, apply_class_balancing=False, alpha=0.25, gamma=2.0, from_logits=False,
                              label_smoothing=0.0, axis=-1):
    y_true, y_pred = _both(y_true, y_pred)
    if label_smoothing:
        y_true = y_true * (1.0 - label_smoothing) + 0.5 * label_smoothing
    p = _elementwise.sigmoid(y_pred) if from_logits else y_pred
    q = clip_by_value(p, epsilon(), 1.0 - epsilon())
    entropy = -(y_true * log(q) + (1.0 - y_true) * log(1.0 - q))
    right = y_true * p + (1.0 - y_true) * (1.0 - p)
    made = _elementwise.pow(1.0 - right, gamma) * entropy
    if apply_class_balancing:
        made = (y_true * alpha + (1.0 - y_true) * (1.0 - alpha)) * made
    return reduce_mean(made, axis)


@operator
def categorical_crossentropy(y_true, y_pred, from_logits=False, label_smoothing=0.0, axis=-1):
    y_pred = convert(y_pred)
    y_true = cast(convert(y_true), y_pred.dtype)
    if y_true.shape[-1] != y_pred.shape[-1] or y_true.ndim != y_pred.ndim:
        raise ValueError(f"Arguments `target` and `output` must have the same shape. Received: target.shape="
                         f"{tuple(y_true.shape)}, output.shape={tuple(y_pred.shape)}")
    if label_smoothing:
        y_true = y_true * (1.0 - label_smoothing) + label_smoothing / float(y_true.shape[-1])
    x = logits_of(y_pred, from_logits, "softmax")
    if x is not None:
        return _nn.softmax_cross_entropy_with_logits(y_true, x, axis)
    p = y_pred / reduce_sum(y_pred, axis, True)
    return -reduce_sum(y_true * log(clip_by_value(p, epsilon(), 1.0 - epsilon())), axis)


@operator
def categorical_focal_crossentropy(y_true, y_pred, alpha=0.25, gamma=2.0, from_logits=False, label_smoothing=0.0, axis=-1):
    y_true, y_pred = _both(y_true, y_pred)
    if label_smoothing:
        y_true = y_true * (1.0 - label_smoothing) + label_smoothing / float(y_true.shape[-1])
    if from_logits:
        y_pred = _nn.softmax(y_pred, axis)
    p = clip_by_value(y_pred / reduce_sum(y_pred, axis, True), epsilon(), 1.0 - epsilon())
    return reduce_sum(_elementwise.pow(1.0 - p, gamma) * alpha * -y_true * log(p), axis)


@operator
def sparse_categorical_crossentropy(y_true, y_pred, from_logits=False, ignore_class=None, axis=-1):
    y_pred = convert(y_pred)
    labels = _labels_of(y_true, y_pred)
    x = logits_of(y_pred, from_logits, "softmax")
    if x is None:
        x = log(clip_by_value(y_pred, epsilon(), 1.0 - epsilon()))
    if ignore_class is None:
        return _nn.sparse_softmax_cross_entropy_with_logits(labels, x)
    valid = _elementwise.not_equal(labels, int(ignore_class))
    kept = _array.where(valid, labels, _array.zeros_like(labels))
    made = _nn.sparse_softmax_cross_entropy_with_logits(kept, x)
    return multiply(made, cast(valid, made.dtype))


def _labels_of(y_true, y_pred):
    labels = convert(y_true)
    if labels.ndim == y_pred.ndim and labels.shape[-1] == 1:
        labels = _array.squeeze(labels, -1)
    if labels.ndim != y_pred.ndim - 1:
        raise ValueError(f"Argument `output` must have rank (ndim) `target.ndim + 1`. Received: target.shape="
                         f"{tuple(labels.shape)}, output.shape={tuple(y_pred.shape)}")
    return labels if labels.dtype.name == "int32" else cast(labels, _types.int32)


MSE = mse = mean_squared_error
MAE = mae = mean_absolute_error
MAPE = mape = mean_absolute_percentage_error
MSLE = msle = mean_squared_logarithmic_error
KLD = kld = kullback_leibler_divergence = kl_divergence
logcosh = log_cosh


class Loss:
    """A loss as an object: a function and how its numbers are reduced to one."""

    def __init__(self, name=None, reduction="sum_over_batch_size", dtype=None):
        self.name = name or snake_case(type(self).__name__)
        reduction = "sum_over_batch_size" if reduction in ("auto", "mean") else reduction
        if reduction not in ("sum_over_batch_size", "sum", "none", None, "mean_with_sample_weight"):
            raise ValueError(f"Invalid value for argument `reduction`. Expected one of ('sum', 'sum_over_batch_size', "
                             f"'none', None). Received: reduction={reduction}")
        self.reduction = reduction

    def __call__(self, y_true, y_pred, sample_weight=None):
        from .. import nest
        if isinstance(y_pred, (list, tuple, dict)) or any(
                getattr(one, "is_symbolic", False) for one in nest.flatten([y_true, y_pred])):
            return self._reduced(self.call(y_true, y_pred), y_pred, sample_weight)
        y_pred = _whole(convert(y_pred))
        fused = None
        if sample_weight is None and y_pred._keras_mask is None and self.reduction == "sum_over_batch_size":
            fused = self._fused_mean(y_true, y_pred)
        if fused is not None:
            return fused
        return self._reduced(self.call(y_true, y_pred), y_pred, sample_weight)

    def _fused_mean(self, y_true, y_pred):
        """The mean in one operator of the engine, where there is one."""
        return None

    def _reduced(self, values, y_pred, sample_weight):
        values = convert(values)
        mask = getattr(y_pred, "_keras_mask", None)
        if mask is not None:
            kept = cast(mask, values.dtype)
            if kept.ndim == values.ndim:
                if self.reduction == "sum_over_batch_size":
                    kept = kept * (float(np.prod(values.shape.as_list())) / reduce_sum(kept))
                sample_weight = kept if sample_weight is None else kept * convert(sample_weight, hint=values.dtype)
        if sample_weight is not None:
            values = multiply(values, _weights_for(values, sample_weight))
        if self.reduction in ("none", None):
            return values
        if self.reduction == "sum":
            return reduce_sum(values)
        if self.reduction == "mean_with_sample_weight" and sample_weight is not None:
            return reduce_sum(values) / reduce_sum(_weights_for(values, sample_weight) + _array.zeros_like(values))
        return reduce_mean(values)

    def call(self, y_true, y_pred):
        raise NotImplementedError

    def get_config(self):
        return {"name": self.name, "reduction": self.reduction}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


def _whole(y_pred):
    """Halves as floats: losses are f32."""
    if y_pred.dtype.name not in ("float16", "bfloat16"):
        return y_pred
    made = cast(y_pred, _types.float32)
    made._keras_mask, made.logits = y_pred._keras_mask, y_pred.logits
    return made


def _weights_for(values, sample_weight):
    weight = convert(sample_weight)
    weight = cast(weight, values.dtype) if weight.dtype is not values.dtype else weight
    if weight.ndim == values.ndim + 1 and weight.shape[-1] == 1:
        weight = _array.squeeze(weight, -1)
    while 0 < weight.ndim < values.ndim:
        weight = _array.expand_dims(weight, -1)
    return weight


class LossFunctionWrapper(Loss):
    def __init__(self, fn, reduction="sum_over_batch_size", name=None, dtype=None, **kwargs):
        super().__init__(name, reduction)
        self.fn, self._fn_kwargs = fn, kwargs

    def call(self, y_true, y_pred):
        return self.fn(y_true, y_pred, **self._fn_kwargs)

    def get_config(self):
        return {**super().get_config(), **self._fn_kwargs}


def _loss(title, fn, defaults, fused=None):
    class Wrapped(LossFunctionWrapper):
        def __init__(self, *args, **kwargs):
            options = dict(defaults)
            names = [*defaults, "reduction", "name", "dtype"]
            options.update(zip(names, args))
            unknown = set(kwargs) - set(names)
            if unknown:
                raise TypeError(f"{title}.__init__() got an unexpected keyword argument '{unknown.pop()}'")
            options.update(kwargs)
            reduction = options.pop("reduction", "sum_over_batch_size")
            name, _ = options.pop("name", None), options.pop("dtype", None)
            super().__init__(fn, reduction, name or fn.__name__, **options)

        if fused is not None:
            def _fused_mean(self, y_true, y_pred):
                return fused(y_true, y_pred, **self._fn_kwargs)
    Wrapped.__name__ = Wrapped.__qualname__ = title
    return Wrapped


def _fused_sparse(y_true, y_pred, from_logits=False, ignore_class=None, axis=-1):
    x = logits_of(y_pred, from_logits, "softmax")
    if x is None or ignore_class is not None or axis not in (-1, y_pred.ndim - 1):
        return None
    return of_core(_engine.op("sparse_cross_entropy")(x.core, _labels_of(y_true, y_pred).core))


def _fused_categorical(y_true, y_pred, from_logits=False, label_smoothing=0.0, axis=-1):
    x = logits_of(y_pred, from_logits, "softmax")
    if x is None or label_smoothing or axis not in (-1, y_pred.ndim - 1):
        return None
    y_true = cast(convert(y_true), x.dtype)
    if y_true.shape != x.shape:
        return None
    return of_core(_engine.op("cross_entropy")(x.core, y_true.core))


def _fused_binary(y_true, y_pred, from_logits=False, label_smoothing=0.0, axis=-1):
    x = logits_of(y_pred, from_logits, "sigmoid")
    if x is None or label_smoothing:
        return None
    y_true, x = _both(y_true, x)
    return of_core(_engine.op("binary_cross_entropy")(x.core, y_true.core)) if y_true.shape == x.shape else None


def _fused_plain(name):
    def fused(y_true, y_pred):
        y_true, y_pred = _both(y_true, y_pred)
        if y_true.shape != y_pred.shape or y_pred.dtype.name != "float32":
            return None
        return of_core(_engine.op(name)(y_pred.core, y_true.core))
    return fused


MeanSquaredError = _loss("MeanSquaredError", mean_squared_error, {}, _fused_plain("mean_squared_error"))
MeanAbsoluteError = _loss("MeanAbsoluteError", mean_absolute_error, {}, _fused_plain("mean_absolute_error"))
MeanAbsolutePercentageError = _loss("MeanAbsolutePercentageError", mean_absolute_percentage_error, {})
MeanSquaredLogarithmicError = _loss("MeanSquaredLogarithmicError", mean_squared_logarithmic_error, {})
Huber = _loss("Huber", huber, {"delta": 1.0})
LogCosh = _loss("LogCosh", log_cosh, {})
Hinge = _loss("Hinge", hinge, {})
SquaredHinge = _loss("SquaredHinge", squared_hinge, {})
CategoricalHinge = _loss("CategoricalHinge", categorical_hinge, {})
Poisson = _loss("Poisson", poisson, {})
KLDivergence = _loss("KLDivergence", kl_divergence, {})
CosineSimilarity = _loss("CosineSimilarity", cosine_similarity, {"axis": -1})
BinaryCrossentropy = _loss("BinaryCrossentropy", binary_crossentropy,
                           {"from_logits": False, "label_smoothing": 0.0, "axis": -1}, _fused_binary)
BinaryFocalCrossentropy = _loss("BinaryFocalCrossentropy", binary_focal_crossentropy, {
    "apply_class_balancing": False, "alpha": 0.25, "gamma": 2.0, "from_logits": False, "label_smoothing": 0.0, "axis": -1})
CategoricalCrossentropy = _loss("CategoricalCrossentropy", categorical_crossentropy,
                                {"from_logits": False, "label_smoothing": 0.0, "axis": -1}, _fused_categorical)
CategoricalFocalCrossentropy = _loss("CategoricalFocalCrossentropy", categorical_focal_crossentropy, {
    "alpha": 0.25, "gamma": 2.0, "from_logits": False, "label_smoothing": 0.0, "axis": -1})
SparseCategoricalCrossentropy = _loss("SparseCategoricalCrossentropy", sparse_categorical_crossentropy,
                                      {"from_logits": False, "ignore_class": None, "axis": -1}, _fused_sparse)

_CLASSES = [MeanSquaredError, MeanAbsoluteError, MeanAbsolutePercentageError, MeanSquaredLogarithmicError, Huber, LogCosh,
            Hinge, SquaredHinge, CategoricalHinge, Poisson, KLDivergence, CosineSimilarity, BinaryCrossentropy,
            BinaryFocalCrossentropy, CategoricalCrossentropy, CategoricalFocalCrossentropy, SparseCategoricalCrossentropy]
_ALIASES = {"mse": MeanSquaredError, "mae": MeanAbsoluteError, "mape": MeanAbsolutePercentageError,
            "msle": MeanSquaredLogarithmicError, "bce": BinaryCrossentropy, "kld": KLDivergence,
            "kullback_leibler_divergence": KLDivergence, "logcosh": LogCosh, "MSE": MeanSquaredError,
            "MAE": MeanAbsoluteError}


def get(identifier):
    """The function of a name; objects and functions as they are."""
    if identifier is None:
        return None
    if isinstance(identifier, str):
        made = object_of(identifier)
        return made.fn
    if isinstance(identifier, dict):
        return object_of(identifier["class_name"])
    if callable(identifier):
        return identifier() if isinstance(identifier, type) else identifier
    raise ValueError(f"Could not interpret loss identifier: {identifier}")


def object_of(identifier):
    """A Loss of a name, a function or an object."""
    if isinstance(identifier, Loss):
        return identifier
    if isinstance(identifier, type):
        return identifier()
    if isinstance(identifier, str):
        for kind in _CLASSES:
            if identifier in (kind.__name__, snake_case(kind.__name__), kind().name):
                return kind()
        if identifier in _ALIASES:
            return _ALIASES[identifier]()
        raise ValueError(f"Could not interpret loss identifier: {identifier}")
    if callable(identifier):
        for kind in _CLASSES:
            if kind().fn is identifier:
                return kind()
        return LossFunctionWrapper(identifier, name=getattr(identifier, "__name__", "loss"))
    raise ValueError(f"Could not interpret loss identifier: {identifier}")


__getattr__ = absent("tf.keras.losses", globals(), {"CTC": "a loss of aligned labels", "Dice": "a function of your own",
                                                    "Tversky": "a function of your own"})
