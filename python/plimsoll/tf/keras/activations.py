"""tf.keras.activations."""
from .. import _elementwise, _nn
from .._call import operator
from .._convert import convert


@operator
def linear(x):
    return convert(x)


@operator
def relu(x, negative_slope=0.0, max_value=None, threshold=0.0, alpha=None):
    slope = float(alpha if alpha is not None else negative_slope)
    x = convert(x)
    if threshold:
        from .._array import where
        made = where(x >= threshold, x, slope * (x - threshold))
    else:
        made = _nn.leaky_relu(x, slope) if slope else _nn.relu(x)
    return made if max_value is None else _elementwise.minimum(made, float(max_value))


@operator
def leaky_relu(x, negative_slope=0.2):
    return _nn.leaky_relu(x, negative_slope)


@operator
def relu6(x):
    return _nn.relu6(x)


@operator
def softmax(x, axis=-1):
    x = convert(x)
    made = _nn.softmax(x, axis)
    if axis in (-1, x.ndim - 1):
        made.logits = ("softmax", x)
    return made


@operator
def sigmoid(x):
    x = convert(x)
    made = _elementwise.sigmoid(x)
    made.logits = ("sigmoid", x)
    return made


@operator
def tanh(x):
    return _elementwise.tanh(x)


@operator
def elu(x, alpha=1.0):
    x = convert(x)
    made = _nn.elu(x)
    if alpha != 1.0:
        from .._array import where
        return where(x > 0.0, x, alpha * _elementwise.expm1(x))
    return made


@operator
def selu(x):
    return _nn.selu(x)


@operator
def celu(x, alpha=1.0):
    return _elementwise.unary("celu", x, lambda a: a, float(alpha)) if not convert(x).is_on_host else _nn.elu(x)


@operator
def gelu(x, approximate=False):
    return _nn.gelu(x, approximate)


@operator
def silu(x):
    return _nn.silu(x)


swish = silu


@operator
def softplus(x):
    return _elementwise.softplus(x)


@operator
def softsign(x):
    return _nn.softsign(x)


@operator
def exponential(x):
    return _elementwise.exp(x)


@operator
def hard_sigmoid(x):
    return _elementwise.clip_by_value(convert(x) / 6.0 + 0.5, 0.0, 1.0)


@operator
def hard_silu(x):
    x = convert(x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


@operator
def mish(x):
    x = convert(x)
    return x * _elementwise.tanh(_elementwise.softplus(x))


@operator
def log_softmax(x, axis=-1):
    return _nn.log_softmax(x, axis)


@operator
def log_sigmoid(x):
    return _elementwise.log_sigmoid(x)


@operator
def squareplus(x, b=4):
    x = convert(x)
    return (x + _elementwise.sqrt(_elementwise.square(x) + float(b))) / 2.0


@operator
def hard_tanh(x):
    return _elementwise.clip_by_value(convert(x), -1.0, 1.0)


_NAMES = {name: value for name, value in list(globals().items())
          if callable(value) and getattr(value, "__module__", "") == __name__}


def get(identifier):
    if identifier is None:
        return linear
    if isinstance(identifier, str):
        if identifier not in _NAMES:
            raise ValueError(f"Could not interpret activation function identifier: {identifier}")
        return _NAMES[identifier]
    if isinstance(identifier, dict):
        return get(identifier.get("config", identifier.get("class_name")))
    if callable(identifier):
        return identifier
    raise ValueError(f"Could not interpret activation function identifier: {identifier}")


def serialize(activation):
    return getattr(activation, "__name__", str(activation))


deserialize = get
