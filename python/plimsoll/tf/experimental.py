"""tf.experimental."""
from ._absent import absent


class numpy:
    @staticmethod
    def experimental_enable_numpy_behavior(*args, **kwargs):
        raise NotImplementedError("plimsoll.tf: tensors have TensorFlow's operators; tensor.numpy() gives the array")


__getattr__ = absent("tf.experimental", globals())
