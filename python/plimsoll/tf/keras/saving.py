"""tf.keras.saving."""
from .._absent import absent
from .models._saving import (CustomObjects as custom_object_scope, get_custom_objects, load_model,
                             register_keras_serializable, save_model)

__all__ = ["custom_object_scope", "get_custom_objects", "load_model", "register_keras_serializable", "save_model"]
__getattr__ = absent("tf.keras.saving", globals())
