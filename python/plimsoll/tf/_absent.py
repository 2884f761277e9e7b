"""Names of TensorFlow that are not here: they fail at once, and say what to use."""
import difflib


def absent(module, names, instead=None):
    """A module's __getattr__ for names that it does not have."""
    known = instead or {}

    def missing(name):
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if name in known:
            raise AttributeError(f"plimsoll.tf has no {module}.{name}; use {known[name]}")
        public = [one for one in names if not one.startswith("_")]
        near = difflib.get_close_matches(name, public, 1, 0.6) or difflib.get_close_matches(
            name.lower(), [one for one in public if one.islower()], 1, 0.6)
        advice = f"the nearest name is {module}.{near[0]}" if near else \
            f"docs/tensorflow.md lists what there is, and dir({module}) too"
        raise AttributeError(f"plimsoll.tf has no {module}.{name}; {advice}")

    return missing
