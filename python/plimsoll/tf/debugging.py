"""tf.debugging."""
from ._absent import absent
from ._control import (Assert, assert_all_finite, assert_equal, assert_greater, assert_greater_equal, assert_less,
                       assert_less_equal, assert_near)


def check_numerics(tensor, message, name=None):
    return assert_all_finite(tensor, message)


def set_log_device_placement(enabled):
    pass


def enable_check_numerics(*args, **kwargs):
    pass


__getattr__ = absent("tf.debugging", globals())
