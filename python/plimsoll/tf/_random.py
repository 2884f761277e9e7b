"""Random numbers. tf.random.set_seed makes them the same in each run; they are not the numbers that TensorFlow draws."""
import zlib

import numpy as np

from . import _engine, _types
from ._array import ints
from ._call import operator, source
from ._convert import convert
from ._tensor import of_core, of_host
from ._types import as_dtype

_LARGE = 1 << 16  # elements from which, without a seed, the engine draws where it computes


class State:
    seed = None
    draws = 0
    op_draws = {}


def set_seed(seed):
    """Starts the sequence of random numbers again."""
    State.seed, State.draws, State.op_draws = int(seed), 0, {}


set_random_seed = set_seed


def generator(seed=None):
    """NumPy's generator for the next draw; the draws of one operator's seed are a sequence of their own."""
    if State.seed is None and seed is None:
        return np.random.Generator(np.random.SFC64())
    if seed is None:
        State.draws += 1
        return np.random.Generator(np.random.SFC64([State.seed, State.draws]))
    count = State.op_draws[seed] = State.op_draws.get(seed, 0) + 1
    return np.random.Generator(np.random.SFC64([State.seed or 0, abs(int(seed)), count, 7]))


def _is_large(sizes, seed, dtype):
    return State.seed is None and seed is None and dtype.name == "float32" and np.prod(sizes, dtype=np.int64) > _LARGE


@source
@operator
def normal(shape, mean=0.0, stddev=1.0, dtype=_types.float32, seed=None, name=None):
    sizes, dtype = ints(shape), as_dtype(dtype)
    if _is_large(sizes, seed, dtype) and type(mean) in (int, float) and type(stddev) in (int, float):
        return of_core(_engine.normal(sizes, float(mean), float(stddev)))
    drawn = generator(seed).standard_normal(sizes, np.float64 if dtype.name == "float64" else np.float32)
    return of_host(np.asarray(drawn * np.asarray(stddev) + np.asarray(mean), dtype.as_numpy_dtype))


@source
@operator
def uniform(shape, minval=0, maxval=None, dtype=_types.float32, seed=None, name=None):
    sizes, dtype = ints(shape), as_dtype(dtype)
    if dtype.is_integer:
        if maxval is None:
            raise ValueError(f"Must specify maxval for integer dtype {dtype!r}")
        return of_host(generator(seed).integers(int(minval), int(maxval), sizes).astype(dtype.as_numpy_dtype))
    high = 1 if maxval is None else maxval
    if _is_large(sizes, seed, dtype) and type(minval) in (int, float) and type(high) in (int, float):
        return of_core(_engine.uniform(sizes, float(minval), float(high)))
    low, high = np.asarray(minval), np.asarray(high)
    drawn = generator(seed).random(sizes, np.float64 if dtype.name == "float64" else np.float32)
    return of_host(np.asarray(drawn * (high - low) + low, dtype.as_numpy_dtype))


@source
@operator
def truncated_normal(shape, mean=0.0, stddev=1.0, dtype=_types.float32, seed=None, name=None):
    dtype = as_dtype(dtype)
    return of_host(truncated(generator(seed), ints(shape), float(mean), float(stddev)).astype(dtype.as_numpy_dtype))


def truncated(draw, sizes, mean, deviation):
    """Normal numbers; those beyond two deviations are drawn again."""
    made = draw.standard_normal(sizes, np.float32)
    flat = made.reshape(-1)
    while True:
        far = np.flatnonzero(np.abs(flat) > 2)
        if not len(far):
            return made * np.float32(deviation) + np.float32(mean)
        flat[far] = draw.standard_normal(len(far), np.float32)


@source
@operator
def shuffle(value, seed=None, name=None):
    from ._array import gather
    x = convert(value)
    return gather(x, generator(seed).permutation(x._sizes[0]).astype(np.int32))


@source
@operator
def categorical(logits, num_samples, dtype=None, seed=None, name=None):
    array = convert(logits).host_array().astype(np.float64)
    noise = generator(seed).gumbel(size=(array.shape[0], int(num_samples), array.shape[1]))
    drawn = (array[:, None, :] + noise).argmax(-1)
    return of_host(drawn.astype(np.int64 if dtype is None else as_dtype(dtype).as_numpy_dtype))


@source
@operator
def gamma(shape, alpha, beta=None, dtype=_types.float32, seed=None, name=None):
    drawn = generator(seed).gamma(np.asarray(alpha), 1 / np.asarray(1.0 if beta is None else beta),
                                  ints(shape) + np.shape(alpha))
    return of_host(drawn.astype(as_dtype(dtype).as_numpy_dtype))


@source
@operator
def poisson(shape, lam, dtype=_types.float32, seed=None, name=None):
    return of_host(generator(seed).poisson(np.asarray(lam), ints(shape) + np.shape(lam))
                   .astype(as_dtype(dtype).as_numpy_dtype))


def _stateless(draw):
    def call(shape, seed, *args, **kwargs):
        words = [abs(int(one)) for one in np.asarray(seed).ravel()]
        saved = State.seed, State.draws
        State.seed = zlib.crc32(repr(words).encode())
        State.draws = 0
        try:
            return draw(shape, *args, **kwargs)
        finally:
            State.seed, State.draws = saved
    return call


stateless_normal = _stateless(normal)
stateless_uniform = _stateless(uniform)
stateless_truncated_normal = _stateless(truncated_normal)


class Generator:
    """tf.random.Generator."""

    def __init__(self, seed=None):
        self._draw = np.random.Generator(np.random.SFC64(seed))

    @classmethod
    def from_seed(cls, seed, alg=None):
        return cls(int(seed))

    @classmethod
    def from_non_deterministic_state(cls, alg=None):
        return cls()

    def normal(self, shape, mean=0.0, stddev=1.0, dtype=_types.float32, name=None):
        return of_host((self._draw.standard_normal(ints(shape)) * stddev + mean).astype(as_dtype(dtype).as_numpy_dtype))

    def uniform(self, shape, minval=0, maxval=None, dtype=_types.float32, name=None):
        dtype = as_dtype(dtype)
        if dtype.is_integer:
            return of_host(self._draw.integers(minval, maxval, ints(shape)).astype(dtype.as_numpy_dtype))
        high = 1 if maxval is None else maxval
        return of_host((self._draw.random(ints(shape)) * (high - minval) + minval).astype(dtype.as_numpy_dtype))

    def truncated_normal(self, shape, mean=0.0, stddev=1.0, dtype=_types.float32, name=None):
        return of_host(truncated(self._draw, ints(shape), mean, stddev).astype(as_dtype(dtype).as_numpy_dtype))

    def make_seeds(self, count=1):
        return of_host(self._draw.integers(0, 2**62, (2, count)))

    def split(self, count=1):
        return [Generator(int(self._draw.integers(0, 2**62))) for _ in range(count)]


_global = Generator()


def get_global_generator():
    return _global
