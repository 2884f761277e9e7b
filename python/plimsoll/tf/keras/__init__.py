"""tf.keras."""
from .._absent import absent
from . import (activations, backend, callbacks, constraints, datasets, initializers, layers, losses, metrics,
               mixed_precision, models, ops, optimizers, preprocessing, regularizers, saving, utils)
from ._state import DTypePolicy
from .layers import Input, InputSpec, Layer
from .layers._base import KerasVariable as Variable
from .losses import Loss
from .metrics import Metric
from .models import Model, Sequential
from .optimizers import Optimizer
from .regularizers import Regularizer

__version__ = "3.0.0"


class dtype_policies:
    DTypePolicy = DTypePolicy


class random:
    """keras.random."""

    def __getattr__(self, name):
        from .. import _random
        return getattr(_random, name)


random = random()


def version():
    return __version__


__getattr__ = absent("tf.keras", globals(), {
    "applications": "layers of your own, or plimsoll.Model.from_onnx for a trained model",
    "experimental": "the names of tf.keras", "wrappers": "a class of your own"})
