"""tf.compat."""
from .._absent import absent
from . import v1

__all__ = ["v1", "v2"]


def as_str(value, encoding="utf-8"):
    return value.decode(encoding) if isinstance(value, bytes) else value


as_text = as_str


def as_bytes(value, encoding="utf-8"):
    return value.encode(encoding) if isinstance(value, str) else value


_missing = absent("tf.compat", globals())


def __getattr__(name):
    if name == "v2":
        import plimsoll.tf
        return plimsoll.tf
    return _missing(name)


