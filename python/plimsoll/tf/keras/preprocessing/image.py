"""tf.keras.preprocessing.image."""
from ..._absent import absent
from ..utils import array_to_img, img_to_array, load_img
from ._generator import ImageDataGenerator

__all__ = ["ImageDataGenerator", "array_to_img", "img_to_array", "load_img"]
__getattr__ = absent("tf.keras.preprocessing.image", globals())
