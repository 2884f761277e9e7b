"""What Keras keeps for the whole program: counts for names, the policy, whether training is under way."""
import re
import threading

from .. import _types


class State(threading.local):
    training = None   # of the call under way; None: nobody said
    policy = None
    replaying = False


state = State()
_counts = {}
_floatx = ["float32"]
_epsilon = [1e-7]


def floatx():
    return _floatx[0]


def set_floatx(value):
    if value not in ("float16", "bfloat16", "float32", "float64"):
        raise ValueError(f"Unknown `floatx` value: {value}. Expected one of float16, float32, float64, bfloat16")
    _floatx[0] = value


def epsilon():
    return _epsilon[0]


def set_epsilon(value):
    _epsilon[0] = value


def snake_case(name):
    name = re.sub(r"\W+", "", name)
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


def unique_name(kind):
    """dense, dense_1, dense_2 ..."""
    count = _counts.get(kind, 0)
    _counts[kind] = count + 1
    return kind if count == 0 else f"{kind}_{count}"


def reset_names():
    _counts.clear()


class Training:
    """Whether calls within are those of training."""

    def __init__(self, training):
        self.training = training

    def __enter__(self):
        self.before, state.training = state.training, self.training

    def __exit__(self, *raised):
        state.training = self.before


class DTypePolicy:
    """In what type layers compute, and in what type their variables are kept."""

    def __init__(self, name="float32"):
        if isinstance(name, DTypePolicy):
            name = name.name
        if isinstance(name, _types.DType):
            name = name.name
        self.name = name
        if name in ("mixed_float16", "mixed_bfloat16"):
            self.compute_dtype, self.variable_dtype = name.removeprefix("mixed_"), "float32"
        elif name in ("float16", "bfloat16", "float32", "float64", "int32", "int64", "uint8", "bool", "int8", "string"):
            self.compute_dtype = self.variable_dtype = name
        else:
            raise ValueError(f"Cannot convert '{name}' to a mixed precision DTypePolicy. Valid policies include "
                             "'mixed_float16', 'mixed_bfloat16', and the name of any float dtype such as 'float32'.")

    def __eq__(self, other):
        return isinstance(other, DTypePolicy) and other.name == self.name

    def __hash__(self):
        return hash(self.name)

    def get_config(self):
        return {"name": self.name}

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    def __repr__(self):
        return f'<DTypePolicy "{self.name}">'


def policy():
    return state.policy or DTypePolicy(floatx())


def set_policy(given):
    state.policy = given if isinstance(given, DTypePolicy) or given is None else DTypePolicy(given)
