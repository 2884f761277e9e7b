"""tf.profiler: taken, with one note; plimsoll's own reports say who holds memory, when and why."""
import contextlib

from . import _engine
from ._absent import absent


def _said():
    _engine.note("profiler", "tf.profiler writes nothing here: tf.get_line().report() says who holds memory")


class experimental:
    class ProfilerOptions:
        def __init__(self, *args, **kwargs):
            pass

    @staticmethod
    def start(logdir, options=None):
        _said()

    @staticmethod
    def stop(save=True):
        pass

    class Profile(contextlib.ContextDecorator):
        def __init__(self, logdir, options=None):
            _said()

        def __enter__(self):
            return self

        def __exit__(self, *raised):
            return False

    class Trace(contextlib.ContextDecorator):
        def __init__(self, name, **kwargs):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *raised):
            return False


__getattr__ = absent("tf.profiler", globals())
