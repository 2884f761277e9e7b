"""tf.sysconfig."""
from ._absent import absent


def get_build_info():
    return {"is_cuda_build": False, "is_rocm_build": False}


__getattr__ = absent("tf.sysconfig", globals())
