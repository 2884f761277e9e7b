"""tf.compat.v1.layers: layers as functions, over those of Keras."""
from ... import _nn
from ..._absent import absent
from ..._call import operator
from ...keras import layers as _layers
from ._scopes import _eager

_kept = {}


def _layer(kind, name, *args, **kwargs):
    """The layer; that of an earlier call where the scope is for reuse."""
    key = ("/".join(_eager.names), name)
    if name is not None and _eager.reuse and key in _kept:
        return _kept[key]
    made = kind(*args, name=name, **kwargs)
    if name is not None:
        _kept[key] = made
    return made


def _called(layer, inputs, **kwargs):
    from ._graphs import default_graph
    made = layer(inputs, **kwargs)
    known = default_graph().variables
    for one in layer.weights:
        if not any(one is other for other in known):
            one._initial = None
            known.append(one)
    return made


def dense(inputs, units, activation=None, use_bias=True, kernel_initializer=None, bias_initializer="zeros", name=None,
          reuse=None, **kwargs):
    return _called(_layer(_layers.Dense, name, units, activation, use_bias, kernel_initializer or "glorot_uniform",
                          bias_initializer), inputs)


def conv2d(inputs, filters, kernel_size, strides=(1, 1), padding="valid", activation=None, use_bias=True,
           kernel_initializer=None, bias_initializer="zeros", name=None, reuse=None, **kwargs):
    return _called(_layer(_layers.Conv2D, name, filters, kernel_size, strides, padding, activation=activation,
                          use_bias=use_bias, kernel_initializer=kernel_initializer or "glorot_uniform",
                          bias_initializer=bias_initializer), inputs)


def max_pooling2d(inputs, pool_size, strides, padding="valid", name=None, **kwargs):
    return _layers.MaxPooling2D(pool_size, strides, padding)(inputs)


def average_pooling2d(inputs, pool_size, strides, padding="valid", name=None, **kwargs):
    return _layers.AveragePooling2D(pool_size, strides, padding)(inputs)


def flatten(inputs, name=None, **kwargs):
    return _layers.Flatten()(inputs)


def dropout(inputs, rate=0.5, noise_shape=None, seed=None, training=False, name=None):
    return _dropped(inputs, float(rate), training)


@operator
def _dropped(inputs, rate, training):
    return _nn.dropout(inputs, rate) if bool(training) else inputs


def batch_normalization(inputs, axis=-1, momentum=0.99, epsilon=1e-3, training=False, name=None, **kwargs):
    return _called(_layer(_layers.BatchNormalization, name, axis, momentum, epsilon), inputs, training=bool(training))


__getattr__ = absent("tf.compat.v1.layers", globals())
