"""tf.keras.regularizers."""
from .. import _elementwise, _reduce


class Regularizer:
    """A number that is added to the loss for a weight."""

    def __call__(self, x):
        return 0.0

    def get_config(self):
        return dict(vars(self))

    @classmethod
    def from_config(cls, config):
        return cls(**config)


class L1L2(Regularizer):
    def __init__(self, l1=0.0, l2=0.0):
        self.l1, self.l2 = float(l1 or 0.0), float(l2 or 0.0)

    def __call__(self, x):
        total = None
        if self.l1:
            total = self.l1 * _reduce.reduce_sum(_elementwise.abs(x))
        if self.l2:
            part = self.l2 * _reduce.reduce_sum(_elementwise.square(x))
            total = part if total is None else total + part
        return 0.0 if total is None else total


class L1(L1L2):
    def __init__(self, l1=0.01):
        super().__init__(l1=0.01 if l1 is None else l1)

    def get_config(self):
        return {"l1": self.l1}


class L2(L1L2):
    def __init__(self, l2=0.01):
        super().__init__(l2=0.01 if l2 is None else l2)

    def get_config(self):
        return {"l2": self.l2}


def l1_l2(l1=0.01, l2=0.01):
    return L1L2(l1, l2)


l1, l2 = L1, L2
_BY_NAME = {"l1": L1, "l2": L2, "l1_l2": L1L2, "L1": L1, "L2": L2, "L1L2": L1L2}


def get(identifier):
    if identifier is None or callable(identifier) and not isinstance(identifier, type):
        return identifier
    if isinstance(identifier, dict):
        return _BY_NAME[identifier["class_name"]](**identifier.get("config", {}))
    if isinstance(identifier, str) and identifier in _BY_NAME:
        return _BY_NAME[identifier]()
    raise ValueError(f"Could not interpret regularizer identifier: {identifier}")
