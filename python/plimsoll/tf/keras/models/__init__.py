"""tf.keras.models."""
from ..._absent import absent
from ._functional import Functional
from ._model import Model
from ._saving import clone_model, load_model, model_from_json, save_model
from ._sequential import Sequential

__getattr__ = absent("tf.keras.models", globals())
