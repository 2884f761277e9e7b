"""tf.compat.v1.losses: means over all elements."""
from ... import _elementwise, _nn, _reduce
from ..._absent import absent
from ..._convert import convert


def _mean(values, weights):
    return _reduce.reduce_mean(values if isinstance(weights, float) and weights == 1.0 else values * weights)


def mean_squared_error(labels, predictions, weights=1.0, scope=None, **kwargs):
    return _mean(_elementwise.squared_difference(predictions, labels), weights)


def absolute_difference(labels, predictions, weights=1.0, scope=None, **kwargs):
    return _mean(_elementwise.abs(_elementwise.subtract(predictions, labels)), weights)


def softmax_cross_entropy(onehot_labels, logits, weights=1.0, label_smoothing=0, scope=None, **kwargs):
    if label_smoothing:
        count = float(convert(logits).shape[-1])
        onehot_labels = onehot_labels * (1.0 - label_smoothing) + label_smoothing / count
    return _mean(_nn.softmax_cross_entropy_with_logits(onehot_labels, logits), weights)


def sparse_softmax_cross_entropy(labels, logits, weights=1.0, scope=None, **kwargs):
    return _mean(_nn.sparse_softmax_cross_entropy_with_logits(labels, logits), weights)


def sigmoid_cross_entropy(multi_class_labels, logits, weights=1.0, label_smoothing=0, scope=None, **kwargs):
    if label_smoothing:
        multi_class_labels = multi_class_labels * (1 - label_smoothing) + 0.5 * label_smoothing
    return _mean(_nn.sigmoid_cross_entropy_with_logits(multi_class_labels, logits), weights)


def huber_loss(labels, predictions, weights=1.0, delta=1.0, scope=None, **kwargs):
    from ..._array import where
    error = _elementwise.abs(_elementwise.subtract(predictions, labels))
    return _mean(where(error <= delta, 0.5 * _elementwise.square(error), delta * error - 0.5 * delta * delta), weights)


def get_regularization_loss(scope=None, name=None):
    return convert(0.0)


__getattr__ = absent("tf.compat.v1.losses", globals())
