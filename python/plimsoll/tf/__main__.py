"""Runs a program of TensorFlow as it is: python -m plimsoll.tf [--line 256MiB] PROGRAM [ARGUMENTS...]

`import tensorflow` gives plimsoll.tf there, and `import tensorflow_model_optimization` gives plimsoll.tfmot: it is the same as
changing that line of the program.
"""
import importlib
import importlib.abc
import importlib.util
import os
import runpy
import sys

_NAMES = {"tensorflow": "plimsoll.tf", "tensorflow_model_optimization": "plimsoll.tfmot", "keras": "plimsoll.tf.keras",
          "tf_keras": "plimsoll.tf.keras"}


class Renamed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds tensorflow.keras.layers where plimsoll.tf.keras.layers is."""

    def find_spec(self, fullname, path=None, target=None):
        first, _, rest = fullname.partition(".")
        if first not in _NAMES:
            return None
        name = _NAMES[first] + ("." + rest if rest else "")
        name = name.replace("plimsoll.tf.python.keras", "plimsoll.tf.keras")
        return importlib.util.spec_from_loader(fullname, self, origin=name, is_package=True)

    def create_module(self, spec):
        try:
            return importlib.import_module(spec.origin)
        except ModuleNotFoundError:
            parent, _, last = spec.origin.rpartition(".")
            found = getattr(importlib.import_module(parent), last)  # says what to use instead
            if isinstance(found, type) or not hasattr(found, "__dict__"):
                raise
            return found

    def exec_module(self, module):
        pass


def main():
    arguments = sys.argv[1:]
    while arguments and arguments[0].startswith("--"):
        flag, _, value = arguments.pop(0).partition("=")
        if flag not in ("--line", "--scratch"):
            sys.exit(f"plimsoll.tf: there is no {flag}; there are --line BYTES and --scratch FOLDER")
        if not value and not arguments:
            sys.exit(f"plimsoll.tf: {flag} needs a value")
        os.environ["PLIMSOLL" + flag[1:].upper().replace("-", "_")] = value or arguments.pop(0)
    if not arguments:
        sys.exit(__doc__)
    sys.meta_path.insert(0, Renamed())
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
