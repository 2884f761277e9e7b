"""tf.keras.preprocessing.sequence."""
from ..utils import pad_sequences

__all__ = ["pad_sequences"]
