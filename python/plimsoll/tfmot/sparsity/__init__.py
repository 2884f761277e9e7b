"""tfmot.sparsity."""
from ...tf._absent import absent
from . import keras

__getattr__ = absent("tfmot.sparsity", globals())
