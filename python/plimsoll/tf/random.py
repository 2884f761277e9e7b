"""tf.random."""
from ._absent import absent
from ._random import (Generator, categorical, gamma, get_global_generator, normal, poisson, set_random_seed, set_seed,
                      shuffle, stateless_normal, stateless_truncated_normal, stateless_uniform, truncated_normal, uniform)

__getattr__ = absent("tf.random", globals())


class experimental:
    Generator = Generator
