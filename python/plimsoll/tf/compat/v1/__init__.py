"""tf.compat.v1: graphs, sessions and placeholders; other names are those of plimsoll.tf."""
from ..._absent import absent
from ..._call import Mode
from ._graphs import (ConfigProto, GPUOptions, Graph, InteractiveSession, OptimizerOptions, Session, disable_eager_execution,
                      disable_v2_behavior, enable_eager_execution, enable_resource_variables, enable_v2_behavior,
                      get_default_graph, get_default_session, global_variables, global_variables_initializer, gradients,
                      initialize_all_variables, local_variables_initializer, placeholder, placeholder_with_default,
                      reset_default_graph, tables_initializer, trainable_variables, variables_initializer)
from ._scopes import AUTO_REUSE, get_variable, get_variable_scope, name_scope, variable_scope
from . import data, layers, losses, train

_missing = absent("tf.compat.v1", globals(), {"app": "a function of your own", "flags": "argparse",
                                              "estimator": "tf.keras.Model"})


def executing_eagerly():
    return Mode.graph is None


def assign(ref, value, validate_shape=None, use_locking=None, name=None):
    return ref.assign(value)


def assign_add(ref, value, use_locking=None, name=None):
    return ref.assign_add(value)


def assign_sub(ref, value, use_locking=None, name=None):
    return ref.assign_sub(value)


def set_random_seed(seed):
    from ..._random import set_seed
    set_seed(seed)


def random_normal(shape, mean=0.0, stddev=1.0, dtype=None, seed=None, name=None):
    from ..._random import normal
    return normal(shape, mean, stddev, dtype or "float32", seed)


def random_uniform(shape, minval=0, maxval=None, dtype=None, seed=None, name=None):
    from ..._random import uniform
    return uniform(shape, minval, maxval, dtype or "float32", seed)


def truncated_normal(shape, mean=0.0, stddev=1.0, dtype=None, seed=None, name=None):
    from ..._random import truncated_normal as draw
    return draw(shape, mean, stddev, dtype or "float32", seed)


def get_collection(key, scope=None):
    if key in ("trainable_variables",):
        return trainable_variables(scope)
    if key in ("variables",):
        return global_variables(scope)
    return get_default_graph().get_collection(key)


def add_to_collection(name, value):
    get_default_graph().add_to_collection(name, value)


class GraphKeys:
    TRAINABLE_VARIABLES, GLOBAL_VARIABLES, REGULARIZATION_LOSSES = "trainable_variables", "variables", "regularization_losses"
    UPDATE_OPS, LOSSES = "update_ops", "losses"


def zeros_initializer(dtype=None):
    from ...keras.initializers import Zeros
    return Zeros()


def ones_initializer(dtype=None):
    from ...keras.initializers import Ones
    return Ones()


def constant_initializer(value=0, dtype=None, verify_shape=False):
    from ...keras.initializers import Constant
    return Constant(value)


def random_normal_initializer(mean=0.0, stddev=1.0, seed=None, dtype=None):
    from ...keras.initializers import RandomNormal
    return RandomNormal(mean, stddev, seed)


def random_uniform_initializer(minval=-0.05, maxval=0.05, seed=None, dtype=None):
    from ...keras.initializers import RandomUniform
    return RandomUniform(minval, maxval, seed)


def truncated_normal_initializer(mean=0.0, stddev=1.0, seed=None, dtype=None):
    from ...keras.initializers import TruncatedNormal
    return TruncatedNormal(mean, stddev, seed)


def glorot_uniform_initializer(seed=None, dtype=None):
    from ...keras.initializers import GlorotUniform
    return GlorotUniform(seed)


def variance_scaling_initializer(scale=1.0, mode="fan_in", distribution="truncated_normal", seed=None, dtype=None):
    from ...keras.initializers import VarianceScaling
    return VarianceScaling(scale, mode, distribution, seed)


class logging:
    ERROR, WARN, INFO, DEBUG, FATAL = 40, 30, 20, 10, 50

    @staticmethod
    def set_verbosity(level):
        pass

    @staticmethod
    def info(message, *args):
        import logging as log
        log.getLogger("tensorflow").info(message, *args)


def __getattr__(name):
    import plimsoll.tf
    if not name.startswith("_") and hasattr(plimsoll.tf, name):
        return getattr(plimsoll.tf, name)
    return _missing(name)
