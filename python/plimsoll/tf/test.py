"""tf.test."""
import unittest

from ._absent import absent


def is_gpu_available(cuda_only=False, min_cuda_compute_capability=None):
    return False


def is_built_with_cuda():
    return False


def is_built_with_gpu_support():
    return False


def gpu_device_name():
    return ""


class TestCase(unittest.TestCase):
    """unittest's, with comparisons of arrays."""

    def assertAllClose(self, a, b, rtol=1e-6, atol=1e-6, msg=None):
        import numpy as np
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol, atol, err_msg=msg or "")

    def assertAllEqual(self, a, b, msg=None):
        import numpy as np
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b), err_msg=msg or "")


def main(argv=None):
    unittest.main(argv=argv)


__getattr__ = absent("tf.test", globals())
