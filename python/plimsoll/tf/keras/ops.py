"""keras.ops: operators under NumPy's names."""
from .. import _array, _elementwise, _linear, _nn, _reduce
from .._absent import absent
from .._convert import convert_to_tensor
from ..nest import map_structure

__all__ = ["convert_to_tensor", "map_structure"]
for _module in (_array, _elementwise, _linear, _nn, _reduce):
    globals().update({_name: _value for _name, _value in vars(_module).items()
                      if not _name.startswith("_") and callable(_value) and getattr(_value, "__module__", "").startswith(
                          "plimsoll.tf") and not isinstance(_value, type)})
sum, mean, max, min, prod, var, std, any, all = (
    _reduce.reduce_sum, _reduce.reduce_mean, _reduce.reduce_max, _reduce.reduce_min, _reduce.reduce_prod,
    _reduce.reduce_variance, _reduce.reduce_std, _reduce.reduce_any, _reduce.reduce_all)
concatenate, power, clip, arange, take, negative = (_array.concat, _elementwise.pow, _elementwise.clip_by_value,
                                                    _array.range, _array.gather, _elementwise.negative)
logsumexp = _reduce.reduce_logsumexp


def convert_to_numpy(x):
    import numpy as np
    return np.asarray(x)


def shape(x):
    return tuple(x.shape)


__getattr__ = absent("keras.ops", globals())
