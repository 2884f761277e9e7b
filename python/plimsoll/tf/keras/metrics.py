"""tf.keras.metrics: numbers over many batches."""
import numpy as np

from .. import _array, _elementwise, _reduce, _types
from .._absent import absent
from .._call import operator
from .._convert import convert
from .._elementwise import cast
from .._tensor import of_host
from . import losses
from ._state import snake_case, unique_name


class Metric:
    """Numbers that batches are added to. Sums of batches stay in the engine until somebody looks."""

    _is_metric = True

    def __new__(cls, *args, **kwargs):
        metric = object.__new__(cls)
        metric._variables = []
        return metric

    def __init__(self, dtype=None, name=None, **kwargs):
        self.name = name or unique_name(snake_case(type(self).__name__))
        self.dtype = "float32" if dtype is None else str(getattr(dtype, "name", dtype))

    def add_weight(self, shape=(), initializer="zeros", dtype=None, name=None, aggregation=None, **kwargs):
        from .initializers import get
        from .layers._base import KerasVariable
        if isinstance(shape, str):  # as Keras 2 had it: the name first
            shape, name = kwargs.get("shape", ()), shape
        variable = KerasVariable(get(initializer)(shape), False, _types.as_dtype(dtype or "float32"), name or "variable")
        self._variables.append(variable)
        return variable

    add_variable = add_weight

    @property
    def variables(self):
        return list(self._variables)

    weights = non_trainable_variables = variables

    def update_state(self, *args, **kwargs):
        raise NotImplementedError

    def result(self):
        raise NotImplementedError

    def reset_state(self):
        for one in self._variables:
            one.assign(np.zeros(one.shape.as_list(), one.dtype.as_numpy_dtype))

    def reset_states(self):
        self.reset_state()

    def __call__(self, *args, **kwargs):
        self.update_state(*args, **kwargs)
        return self.result()

    def settle(self):
        """Adds up what is still to be computed."""

    def get_config(self):
        return {"name": self.name, "dtype": self.dtype}

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    def __repr__(self):
        return f"<{type(self).__name__} name={self.name}>"


class Sum(Metric):
    def __init__(self, name="sum", dtype=None):
        super().__init__(dtype, name)
        self.reset_state()

    def reset_state(self):
        self._total, self._count, self._pending = 0.0, 0.0, []

    def update_state(self, values, sample_weight=None):
        values = convert(values)
        if not values.dtype.is_floating:
            values = cast(values, _types.float32)
        if sample_weight is not None:
            weight = losses._weights_for(values, sample_weight)
            self._add(_reduce.reduce_sum(values * weight), _reduce.reduce_sum(weight + _array.zeros_like(values)))
        else:
            self._add(_reduce.reduce_sum(values), float(np.prod(values.shape.as_list(), dtype=np.int64)))

    def _add(self, total, count):
        self._pending.append((total, count))
        if len(self._pending) > 64:
            self.settle()

    def settle(self):
        pending, self._pending = self._pending, []
        for total, count in pending:
            self._total += float(total)
            self._count += float(count)

    def result(self):
        self.settle()
        return of_host(np.float32(self._total))

    @property
    def total(self):
        self.settle()
        return of_host(np.float32(self._total))

    @property
    def count(self):
        self.settle()
        return of_host(np.float32(self._count))


class Mean(Sum):
    def __init__(self, name="mean", dtype=None):
        super().__init__(name, dtype)

    def result(self):
        self.settle()
        return of_host(np.float32(self._total / self._count if self._count else 0.0))


class MeanMetricWrapper(Mean):
    def __init__(self, fn, name=None, dtype=None, **kwargs):
        super().__init__(name or getattr(fn, "__name__", "metric"), dtype)
        self._fn, self._fn_kwargs = fn, kwargs

    def update_state(self, y_true, y_pred, sample_weight=None):
        mask = getattr(y_pred, "_keras_mask", None)
        values = convert(self._fn(y_true, y_pred, **self._fn_kwargs))
        if mask is not None and cast(mask, _types.float32).ndim == values.ndim:
            kept = cast(mask, _types.float32)
            sample_weight = kept if sample_weight is None else kept * convert(sample_weight)
        super().update_state(values, sample_weight)

    def get_config(self):
        return {"name": self.name, "dtype": self.dtype, **self._fn_kwargs}


# Functions, one number for each sample.


def _pair(y_true, y_pred):
    return losses.same_rank(convert(y_true), convert(y_pred))


@operator
def accuracy(y_true, y_pred):
    y_true, y_pred = _pair(y_true, y_pred)
    return cast(_elementwise.equal(cast(y_true, y_pred.dtype), y_pred), _types.float32)


@operator
def binary_accuracy(y_true, y_pred, threshold=0.5):
    y_true, y_pred = _pair(y_true, y_pred)
    above = cast(_elementwise.greater(y_pred, float(threshold)), _types.float32)
    return cast(_elementwise.equal(cast(y_true, _types.float32), above), _types.float32)


@operator
def categorical_accuracy(y_true, y_pred):
    return cast(_elementwise.equal(_reduce.argmax(y_true, -1), _reduce.argmax(y_pred, -1)), _types.float32)


@operator
def sparse_categorical_accuracy(y_true, y_pred):
    y_true, y_pred = convert(y_true), convert(y_pred)
    if y_true.ndim == y_pred.ndim and y_true.shape[-1] == 1:
        y_true = _array.squeeze(y_true, -1)
    return cast(_elementwise.equal(cast(y_true, _types.int64), _reduce.argmax(y_pred, -1)), _types.float32)


@operator
def sparse_top_k_categorical_accuracy(y_true, y_pred, k=5):
    y_true, y_pred = convert(y_true), convert(y_pred)
    if y_true.ndim == y_pred.ndim:
        y_true = _array.squeeze(y_true, -1)
    return cast(_reduce.in_top_k(cast(y_true, _types.int32), y_pred, k), _types.float32)


@operator
def top_k_categorical_accuracy(y_true, y_pred, k=5):
    return cast(_reduce.in_top_k(cast(_reduce.argmax(y_true, -1), _types.int32), y_pred, k), _types.float32)


def _cosine(y_true, y_pred, axis=-1):
    return -losses.cosine_similarity(y_true, y_pred, axis)


mean_squared_error = MSE = mse = losses.mean_squared_error
mean_absolute_error = MAE = mae = losses.mean_absolute_error
binary_crossentropy, categorical_crossentropy = losses.binary_crossentropy, losses.categorical_crossentropy
sparse_categorical_crossentropy = losses.sparse_categorical_crossentropy


def _metric(title, fn, name, defaults=None):
    defaults = defaults or {}

    class Wrapped(MeanMetricWrapper):
        def __init__(self, *args, **kwargs):
            names = [*defaults] + ["name", "dtype"] if title in _OPTIONS_FIRST else ["name", "dtype", *defaults]
            options = dict(defaults)
            options.update(zip(names, args))
            options.update(kwargs)
            own, kind = options.pop("name", None), options.pop("dtype", None)
            super().__init__(fn, own or name, kind, **options)
    Wrapped.__name__ = Wrapped.__qualname__ = title
    return Wrapped


_OPTIONS_FIRST = ("TopKCategoricalAccuracy", "SparseTopKCategoricalAccuracy")
Accuracy = _metric("Accuracy", accuracy, "accuracy")
BinaryAccuracy = _metric("BinaryAccuracy", binary_accuracy, "binary_accuracy", {"threshold": 0.5})
CategoricalAccuracy = _metric("CategoricalAccuracy", categorical_accuracy, "categorical_accuracy")
SparseCategoricalAccuracy = _metric("SparseCategoricalAccuracy", sparse_categorical_accuracy,
                                    "sparse_categorical_accuracy")
TopKCategoricalAccuracy = _metric("TopKCategoricalAccuracy", top_k_categorical_accuracy, "top_k_categorical_accuracy",
                                  {"k": 5})
SparseTopKCategoricalAccuracy = _metric("SparseTopKCategoricalAccuracy", sparse_top_k_categorical_accuracy,
                                        "sparse_top_k_categorical_accuracy", {"k": 5})
MeanSquaredError = _metric("MeanSquaredError", losses.mean_squared_error, "mean_squared_error")
MeanAbsoluteError = _metric("MeanAbsoluteError", losses.mean_absolute_error, "mean_absolute_error")
MeanAbsolutePercentageError = _metric("MeanAbsolutePercentageError", losses.mean_absolute_percentage_error,
                                      "mean_absolute_percentage_error")
MeanSquaredLogarithmicError = _metric("MeanSquaredLogarithmicError", losses.mean_squared_logarithmic_error,
                                      "mean_squared_logarithmic_error")
BinaryCrossentropy = _metric("BinaryCrossentropy", losses.binary_crossentropy, "binary_crossentropy",
                             {"from_logits": False, "label_smoothing": 0})
CategoricalCrossentropy = _metric("CategoricalCrossentropy", losses.categorical_crossentropy, "categorical_crossentropy",
                                  {"from_logits": False, "label_smoothing": 0})
SparseCategoricalCrossentropy = _metric("SparseCategoricalCrossentropy", losses.sparse_categorical_crossentropy,
                                        "sparse_categorical_crossentropy", {"from_logits": False})
Hinge = _metric("Hinge", losses.hinge, "hinge")
Poisson = _metric("Poisson", losses.poisson, "poisson")
KLDivergence = _metric("KLDivergence", losses.kl_divergence, "kl_divergence")
LogCoshError = _metric("LogCoshError", losses.log_cosh, "logcosh")
CosineSimilarity = _metric("CosineSimilarity", _cosine, "cosine_similarity", {"axis": -1})


class RootMeanSquaredError(Mean):
    def __init__(self, name="root_mean_squared_error", dtype=None):
        super().__init__(name, dtype)

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_true, y_pred = losses._both(y_true, y_pred)
        super().update_state(_elementwise.square(y_pred - y_true), sample_weight)

    def result(self):
        return of_host(np.sqrt(super().result().host_array()))


class _Counts(Metric):
    """Counts of NumPy, of what a batch holds."""

    def __init__(self, name=None, dtype=None):
        super().__init__(dtype, name)
        self.reset_state()

    @staticmethod
    def _arrays(y_true, y_pred, sample_weight):
        a, b = np.asarray(convert(y_true)), np.asarray(convert(y_pred))
        weight = np.ones(b.shape) if sample_weight is None else np.broadcast_to(
            np.reshape(np.asarray(convert(sample_weight)), (-1,) + (1,) * (b.ndim - 1)), b.shape)
        return a.reshape(b.shape) if a.size == b.size else np.broadcast_to(a, b.shape), b, weight


class _Confusion(_Counts):
    def __init__(self, thresholds=None, top_k=None, class_id=None, name=None, dtype=None):
        self.thresholds = 0.5 if thresholds is None else thresholds
        self.top_k, self.class_id = top_k, class_id
        super().__init__(name, dtype)

    def reset_state(self):
        count = len(np.atleast_1d(self.thresholds))
        self.tp, self.fp, self.tn, self.fn = (np.zeros(count) for _ in range(4))

    def update_state(self, y_true, y_pred, sample_weight=None):
        a, b, weight = self._arrays(y_true, y_pred, sample_weight)
        if self.top_k is not None:
            order = np.argsort(-b, -1)[..., :self.top_k]
            kept = np.zeros_like(b)
            np.put_along_axis(kept, order, 1.0, -1)
            b = kept
        if self.class_id is not None:
            a, b, weight = a[..., self.class_id], b[..., self.class_id], weight[..., self.class_id]
        for i, threshold in enumerate(np.atleast_1d(self.thresholds)):
            is_true, is_said = a > 0.5, b > threshold
            self.tp[i] += weight[is_true & is_said].sum()
            self.fp[i] += weight[~is_true & is_said].sum()
            self.fn[i] += weight[is_true & ~is_said].sum()
            self.tn[i] += weight[~is_true & ~is_said].sum()

    def _given(self, values):
        values = np.asarray(values, np.float32)
        return of_host(values[0] if np.ndim(self.thresholds) == 0 else values)

    @staticmethod
    def _share(a, b):
        return np.divide(a, a + b, out=np.zeros_like(a), where=(a + b) > 0)


class Precision(_Confusion):
    def result(self):
        return self._given(self._share(self.tp, self.fp))


class Recall(_Confusion):
    def result(self):
        return self._given(self._share(self.tp, self.fn))


class TruePositives(_Confusion):
    def result(self):
        return self._given(self.tp)


class FalsePositives(_Confusion):
    def result(self):
        return self._given(self.fp)


class TrueNegatives(_Confusion):
    def result(self):
        return self._given(self.tn)


class FalseNegatives(_Confusion):
    def result(self):
        return self._given(self.fn)


class AUC(_Confusion):
    def __init__(self, num_thresholds=200, curve="ROC", summation_method="interpolation", name=None, dtype=None,
                 thresholds=None, multi_label=False, num_labels=None, label_weights=None, from_logits=False):
        inner = [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)] if thresholds is None \
            else sorted(thresholds)
        self.curve, self.from_logits = curve, from_logits
        super().__init__([-1e-7, *inner, 1 + 1e-7], name=name or unique_name("auc"))

    def update_state(self, y_true, y_pred, sample_weight=None):
        super().update_state(y_true, _elementwise.sigmoid(convert(y_pred)) if self.from_logits else y_pred, sample_weight)

    def result(self):
        if self.curve == "PR":
            tp, p = self.tp, self.tp + self.fp
            dtp, dp = tp[:-1] - tp[1:], p[:-1] - p[1:]
            slope = np.divide(dtp, np.maximum(dp, 0), out=np.zeros_like(dtp), where=dp > 0)
            intercept = tp[1:] - slope * p[1:]
            ratio = np.where((p[:-1] > 0) & (p[1:] > 0), np.divide(p[:-1], np.maximum(p[1:], 1e-30)), 1)
            steps = np.divide(slope * (dtp + intercept * np.log(np.maximum(ratio, 1e-30))),
                              np.maximum(tp[1:] + self.fn[1:], 1e-30))
            return of_host(np.float32(steps.sum()))
        recall, false = self._share(self.tp, self.fn), self._share(self.fp, self.tn)
        return of_host(np.float32(np.sum((false[:-1] - false[1:]) * (recall[:-1] + recall[1:]) / 2)))


class MeanIoU(_Counts):
    def __init__(self, num_classes, name=None, dtype=None, ignore_class=None, sparse_y_true=True, sparse_y_pred=True,
                 axis=-1):
        self.num_classes, self.sparse_y_true, self.sparse_y_pred, self.axis = (num_classes, sparse_y_true, sparse_y_pred,
                                                                               axis)
        super().__init__(name, dtype)

    def reset_state(self):
        self.table = np.zeros((self.num_classes, self.num_classes))

    def update_state(self, y_true, y_pred, sample_weight=None):
        a, b = np.asarray(convert(y_true)), np.asarray(convert(y_pred))
        a = a if self.sparse_y_true else a.argmax(self.axis)
        b = b if self.sparse_y_pred else b.argmax(self.axis)
        np.add.at(self.table, (a.ravel().astype(int), b.ravel().astype(int)), 1)

    def result(self):
        right = np.diag(self.table)
        union = self.table.sum(0) + self.table.sum(1) - right
        return of_host(np.float32((right[union > 0] / union[union > 0]).mean() if (union > 0).any() else 0.0))


class F1Score(_Counts):
    def __init__(self, average=None, threshold=None, name="f1_score", dtype=None):
        self.average, self.threshold = average, threshold
        super().__init__(name, dtype)

    def reset_state(self):
        self.tp = self.fp = self.fn = 0.0

    def update_state(self, y_true, y_pred, sample_weight=None):
        a, b = np.asarray(convert(y_true)) > 0.5, np.asarray(convert(y_pred))
        b = b > self.threshold if self.threshold is not None else b == b.max(-1, keepdims=True)
        self.tp = self.tp + (a & b).sum(0)
        self.fp = self.fp + (~a & b).sum(0)
        self.fn = self.fn + (a & ~b).sum(0)

    def result(self):
        tp, fp, fn = (np.asarray(one, np.float64) for one in (self.tp, self.fp, self.fn))
        if self.average == "micro":
            tp, fp, fn = tp.sum(), fp.sum(), fn.sum()
        score = 2 * tp / np.maximum(2 * tp + fp + fn, 1e-7)
        if self.average == "macro":
            score = score.mean()
        return of_host(np.asarray(score, np.float32))


_CLASSES = [value for value in list(globals().values()) if isinstance(value, type) and issubclass(value, Metric)]
_ALIASES = {"acc": "accuracy", "mse": "mean_squared_error", "mae": "mean_absolute_error",
            "mape": "mean_absolute_percentage_error", "rmse": "root_mean_squared_error", "MSE": "mean_squared_error",
            "MAE": "mean_absolute_error"}


def get(identifier):
    if identifier is None or isinstance(identifier, Metric):
        return identifier
    if isinstance(identifier, type):
        return identifier()
    if isinstance(identifier, str):
        name = _ALIASES.get(identifier, identifier)
        for kind in _CLASSES:
            if name in (kind.__name__, snake_case(kind.__name__)) and kind not in (Metric, MeanMetricWrapper):
                made = kind()
                return made
        if name in ("auc", "AUC"):
            return AUC(name="auc")
        raise ValueError(f"Could not interpret metric identifier: {identifier}")
    if callable(identifier):
        return MeanMetricWrapper(identifier)
    raise ValueError(f"Could not interpret metric identifier: {identifier}")


def accuracy_for(y_true, y_pred, name):
    """What "accuracy" means for these shapes."""
    a, b = convert(y_true), convert(y_pred)
    if b.shape[-1] == 1 or b.ndim == 1:
        return MeanMetricWrapper(binary_accuracy, name)
    if a.ndim < b.ndim or (a.ndim == b.ndim and a.shape[-1] == 1):
        return MeanMetricWrapper(sparse_categorical_accuracy, name)
    return MeanMetricWrapper(categorical_accuracy, name)


def crossentropy_for(y_true, y_pred, name):
    a, b = convert(y_true), convert(y_pred)
    if b.shape[-1] == 1:
        return MeanMetricWrapper(losses.binary_crossentropy, name)
    if a.ndim < b.ndim or a.shape[-1] == 1:
        return MeanMetricWrapper(losses.sparse_categorical_crossentropy, name)
    return MeanMetricWrapper(losses.categorical_crossentropy, name)


__getattr__ = absent("tf.keras.metrics", globals())
