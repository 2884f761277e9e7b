"""tf.dtypes."""
from ._absent import absent
from ._elementwise import cast, saturate_cast
from ._types import (DType, as_dtype, bfloat16, bool_ as bool, double, float16, float32, float64, half, int8, int16, int32,
                     int64, string, uint8, uint16, uint32, uint64)

__getattr__ = absent("tf.dtypes", globals())
