"""Matrix products and what linear algebra needs: matmul, einsum, norms, and small decompositions on the host."""
import numpy as np

from . import _engine, _types
from ._array import reshape, transpose
from ._call import operator
from ._convert import convert
from ._elementwise import Host, cast, multiply, pair, sqrt, square
from ._reduce import reduce_max, reduce_sum
from ._tensor import of_core, of_host
from .errors import InvalidArgumentError


@operator
def matmul(a, b, transpose_a=False, transpose_b=False, adjoint_a=False, adjoint_b=False, a_is_sparse=False,
           b_is_sparse=False, output_type=None, grad_a=False, grad_b=False, name=None):
    a, b = pair(a, b, "MatMul")
    turn_a, turn_b = bool(transpose_a or adjoint_a), bool(transpose_b or adjoint_b)
    if a.ndim < 2 or b.ndim < 2:
        raise InvalidArgumentError(f"In[0] and In[1] ndims must be >= 2: {a.ndim} and {b.ndim}; use tf.linalg.matvec or "
                                   "tf.tensordot")
    inner = a._sizes[-2 if turn_a else -1], b._sizes[-1 if turn_b else -2]
    if inner[0] != inner[1]:
        raise InvalidArgumentError(f"Matrix size-incompatible: In[0]: {list(a.shape)}, In[1]: {list(b.shape)}")
    if Host.depth and a.is_on_host and b.is_on_host:
        left = np.swapaxes(a._host, -1, -2) if turn_a else a._host
        right = np.swapaxes(b._host, -1, -2) if turn_b else b._host
        return of_host(left @ right)
    if a.dtype.is_integer:
        a, b, kind = cast(a, _types.float32), cast(b, _types.float32), a.dtype
        return cast(of_core(_engine.op("matmul")(a.core, b.core, turn_a, turn_b)), kind)
    return of_core(_engine.op("matmul")(a.core, b.core, turn_a, turn_b))


@operator
def matvec(a, b, transpose_a=False, adjoint_a=False, a_is_sparse=False, b_is_sparse=False, name=None):
    b = convert(b)
    made = matmul(a, reshape(b, tuple(b.shape) + (1,)), transpose_a=transpose_a or adjoint_a)
    return reshape(made, tuple(made.shape)[:-1])


@operator
def tensordot(a, b, axes, name=None):
    a, b = pair(a, b, "Tensordot")
    if isinstance(axes, (int, np.integer)):
        of_a = list(range(a.ndim - axes, a.ndim))
        of_b = list(range(axes))
    else:
        of_a, of_b = (np.atleast_1d(np.asarray(part)).tolist() for part in axes)
    of_a, of_b = [one % a.ndim for one in of_a], [one % b.ndim for one in of_b]
    free_a = [axis for axis in range(a.ndim) if axis not in of_a]
    free_b = [axis for axis in range(b.ndim) if axis not in of_b]
    sizes_a, sizes_b = a._sizes, b._sizes
    inner = int(np.prod([sizes_a[axis] for axis in of_a], dtype=np.int64))
    left = reshape(transpose(a, free_a + of_a), (-1, inner))
    right = reshape(transpose(b, of_b + free_b), (inner, -1))
    return reshape(matmul(left, right), [sizes_a[axis] for axis in free_a] + [sizes_b[axis] for axis in free_b])


@operator
def einsum(equation, *inputs, **kwargs):
    made = [convert(one) for one in inputs]
    equation = equation.replace(" ", "")
    if "..." in equation:
        equation = _without_dots(equation, [one.ndim for one in made])
    if "->" not in equation:
        letters = equation.replace(",", "")
        equation += "->" + "".join(sorted(one for one in set(letters) if letters.count(one) == 1))
    return of_core(_engine.op("einsum")(equation, [one.core for one in made]))


def _without_dots(equation, ranks):
    spare = [letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in equation]
    left, _, right = equation.partition("->")
    parts, most = left.split(","), 0
    for i, part in enumerate(parts):
        if "..." in part:
            count = ranks[i] - len(part) + 3
            most = max(most, count)
            parts[i] = part.replace("...", "".join(spare[8 - count:8]))
    return ",".join(parts) + "->" + right.replace("...", "".join(spare[8 - most:8]))


@operator
def norm(tensor, ord="euclidean", axis=None, keepdims=None, name=None):
    from ._elementwise import abs as magnitude, pow as power
    x, keep = convert(tensor), bool(keepdims)
    if ord in ("euclidean", "fro", 2):
        return sqrt(reduce_sum(square(x), axis, keep))
    if ord == 1:
        return reduce_sum(magnitude(x), axis, keep)
    if ord == np.inf:
        return reduce_max(magnitude(x), axis, keep)
    return power(reduce_sum(power(magnitude(x), float(ord)), axis, keep), 1.0 / ord)


@operator
def trace(x, name=None):
    return reduce_sum(diag_part(x), -1)


@operator
def diag_part(input, name="diag_part", k=0, padding_value=0, align=None):
    return of_core(_engine.op("diagonal")(convert(input).core, int(k)))


@operator
def diag(diagonal, name="diag", k=0, num_rows=-1, num_cols=-1, padding_value=0, align=None):
    from ._array import expand_dims, eye
    x = convert(diagonal)
    return multiply(expand_dims(x, -1), eye(x._sizes[-1], dtype=x.dtype))


@operator
def band_part(input, num_lower, num_upper, name=None):
    x, low, high = convert(input), int(num_lower), int(num_upper)
    made = x.core
    if low >= 0:
        made = _engine.op("triu")(made, -low)
    if high >= 0:
        made = _engine.op("tril")(made, high)
    return of_core(made)


def _on_host(name, function):
    """A decomposition that NumPy makes: without a gradient."""
    @operator
    def call(*args, **kwargs):
        kwargs.pop("name", None)
        _engine.note(name, f"tf.linalg.{name} is computed by NumPy: no gradient flows through it")
        made = function(*(convert(one).host_array() for one in args), **kwargs)
        if isinstance(made, tuple):
            return tuple(of_host(np.asarray(part)) for part in made)
        return of_host(np.asarray(made))
    call.__name__ = name
    return call


def _svd(tensor, full_matrices=False, compute_uv=True):
    made = np.linalg.svd(tensor, full_matrices, compute_uv)
    return (made[1], made[0], np.swapaxes(made[2], -1, -2)) if compute_uv else made


inv = _on_host("inv", np.linalg.inv)
det = _on_host("det", np.linalg.det)
solve = _on_host("solve", np.linalg.solve)
cholesky = _on_host("cholesky", np.linalg.cholesky)
svd = _on_host("svd", _svd)
qr = _on_host("qr", lambda x, full_matrices=False: tuple(np.linalg.qr(x, "complete" if full_matrices else "reduced")))
eigh = _on_host("eigh", lambda x: tuple(np.linalg.eigh(x)))
pinv = _on_host("pinv", np.linalg.pinv)
lstsq = _on_host("lstsq", lambda a, b, **options: np.linalg.lstsq(a, b, rcond=None)[0])


@operator
def global_norm(t_list, name=None):
    total = None
    for one in t_list:
        if one is not None:
            part = reduce_sum(square(convert(one)))
            total = part if total is None else total + part
    return sqrt(total)


@operator
def clip_by_norm(t, clip_norm, axes=None, name=None):
    from ._array import ones_like, where
    from ._elementwise import maximum
    x = convert(t)
    total = reduce_sum(square(x), axes, True)
    filled = total > 0.0
    length = where(filled, sqrt(where(filled, total, ones_like(total))), total)
    return multiply(x, clip_norm) / maximum(length, clip_norm)


def clip_by_global_norm(t_list, clip_norm, use_norm=None, name=None):
    from ._elementwise import minimum
    length = use_norm if use_norm is not None else global_norm(t_list)
    factor = float(clip_norm) * minimum(1.0 / length, 1.0 / float(clip_norm))
    return [None if one is None else multiply(convert(one), factor) for one in t_list], length
