"""tf.keras.preprocessing."""
from ..._absent import absent
from ..utils import image_dataset_from_directory
from . import image, sequence

__getattr__ = absent("tf.keras.preprocessing", globals(), {"text": "numbers that you made of the text",
                                                           "timeseries_dataset_from_array": "Dataset.window"})
