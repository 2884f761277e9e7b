"""tf.nn."""
from . import _elementwise, _reduce
from ._absent import absent
from ._nn import (avg_pool, avg_pool1d, avg_pool2d, avg_pool3d, batch_normalization, bias_add, conv1d, conv1d_transpose,
                  conv2d, conv2d_transpose, conv3d, convolution, crelu, depthwise_conv2d, dropout, elu, embedding_lookup,
                  gelu, l2_loss, leaky_relu, local_response_normalization, log_poisson_loss, log_softmax, lrn, max_pool,
                  max_pool1d, max_pool2d, max_pool3d, relu, relu6, selu, separable_conv2d,
                  sigmoid_cross_entropy_with_logits, silu, softmax, softmax_cross_entropy_with_logits,
                  softmax_cross_entropy_with_logits_v2, softsign, sparse_softmax_cross_entropy_with_logits, swish,
                  weighted_cross_entropy_with_logits, zero_fraction)
from ._reduce import in_top_k, l2_normalize, moments, top_k

sigmoid, tanh, softplus = _elementwise.sigmoid, _elementwise.tanh, _elementwise.softplus
log_sigmoid = _elementwise.log_sigmoid


def compute_average_loss(per_example_loss, sample_weight=None, global_batch_size=None):
    from ._convert import convert
    values = convert(per_example_loss)
    if sample_weight is not None:
        values = values * sample_weight
    count = float(global_batch_size) if global_batch_size is not None else float(values.shape[0])
    return _reduce.reduce_sum(values) / count


def scale_regularization_loss(regularization_loss):
    return _reduce.reduce_sum(regularization_loss)


__getattr__ = absent("tf.nn", globals(), {"ctc_loss": "a loss of aligned labels",
                                          "rnn_cell": "tf.keras.layers.LSTMCell and its like"})
