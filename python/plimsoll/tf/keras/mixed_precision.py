"""tf.keras.mixed_precision: what layers compute with."""
from ._state import DTypePolicy, policy as _policy, set_policy
from .optimizers import LossScaleOptimizer

__all__ = ["DTypePolicy", "LossScaleOptimizer", "Policy", "dtype_policy", "global_policy", "set_dtype_policy",
           "set_global_policy"]

Policy = DTypePolicy


def set_global_policy(policy):
    """Takes a Policy or its name."""
    set_policy(policy)


def global_policy():
    return _policy()


set_dtype_policy = set_global_policy
dtype_policy = global_policy
