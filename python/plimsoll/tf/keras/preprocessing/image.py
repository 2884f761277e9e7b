"""tf.keras.preprocessing.image."""
from ..._absent import absent
from ..utils import array_to_img, img_to_array, load_img

__all__ = ["array_to_img", "img_to_array", "load_img"]
__getattr__ = absent("tf.keras.preprocessing.image", globals(), {
    "ImageDataGenerator": "tf.keras.utils.image_dataset_from_directory, with layers that flip and crop"})
