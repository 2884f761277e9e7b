"""Pruning as tensorflow-model-optimization has it: `import plimsoll.tfmot as tfmot`."""
from ..tf._absent import absent
from . import sparsity

__version__ = "0.8.1"  # of the package whose names and semantics these are
__getattr__ = absent("tfmot", globals(), {
    "quantization": "plimsoll's quantise, which stores weights and activations in 8 bits",
    "clustering": "pruning, or plimsoll's quantise"})
