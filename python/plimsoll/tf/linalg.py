"""tf.linalg."""
from . import _array, _reduce
from ._absent import absent
from ._linear import (band_part, cholesky, det, diag, diag_part, eigh, einsum, global_norm, inv, lstsq, matmul, matvec, norm,
                      pinv, qr, solve, svd, tensordot, trace)

eye = _array.eye
l2_normalize = _reduce.l2_normalize


def matrix_transpose(a, name="matrix_transpose", conjugate=False):
    from ._convert import convert
    rank = convert(a).ndim
    return _array.transpose(a, [*range(rank - 2), rank - 1, rank - 2])


def normalize(tensor, ord="euclidean", axis=None, name=None):
    length = norm(tensor, ord, axis, True)
    return tensor / length, length


__getattr__ = absent("tf.linalg", globals())
