"""tf.Module."""
from ._variable import Variable


class Module:
    """Something with variables."""

    def __init__(self, name=None):
        self._name = name or type(self).__name__.lower()

    @property
    def name(self):
        return self.__dict__.get("_name", type(self).__name__.lower())

    def _found(self, kind):
        seen, found = set(), []

        def walk(value):
            if id(value) in seen:
                return
            seen.add(id(value))
            if isinstance(value, kind):
                found.append(value)
            if isinstance(value, Module):
                for name in sorted(vars(value)):
                    walk(vars(value)[name])
            elif hasattr(value, "_is_layer"):
                if kind is Variable:
                    found.extend(one for one in value.weights if not any(one is other for other in found))
            elif isinstance(value, (list, tuple)):
                for one in value:
                    walk(one)
            elif isinstance(value, dict):
                for one in value.values():
                    walk(one)
        walk(self)
        return tuple(found)

    @property
    def variables(self):
        return self._found(Variable)

    @property
    def trainable_variables(self):
        return tuple(one for one in self.variables if one.trainable)

    @property
    def non_trainable_variables(self):
        return tuple(one for one in self.variables if not one.trainable)

    @property
    def submodules(self):
        return tuple(one for one in self._found(Module) if one is not self)

    @classmethod
    def with_name_scope(cls, method):
        return method

    @property
    def name_scope(self):
        from .compat.v1 import name_scope
        return name_scope(self.name)
