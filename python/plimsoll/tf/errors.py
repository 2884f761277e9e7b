"""tf.errors: the exceptions of TensorFlow's names that programs catch."""


class OpError(Exception):
    """What all of them are."""

    def __init__(self, node_def=None, op=None, message=None, error_code=None):
        if message is None:
            message = node_def if isinstance(node_def, str) else ""
        super().__init__(message)
        self.message = message
        self.op = op
        self.node_def = None if isinstance(node_def, str) else node_def


class InvalidArgumentError(OpError, ValueError):
    """A value that an operator can't take."""


class ResourceExhaustedError(OpError, MemoryError):
    """It does not fit the line."""


class OutOfRangeError(OpError):
    """A dataset has no further element."""


class NotFoundError(OpError):
    """A file that is not there."""


class FailedPreconditionError(OpError):
    """Something must come first."""


class UnimplementedError(OpError):
    """Something that this build can't do."""


class InternalError(OpError):
    """A fault of the engine."""


class AbortedError(OpError):
    """It was stopped."""


class CancelledError(OpError):
    """It was called off."""


class DataLossError(OpError):
    """A damaged file."""


class UnavailableError(OpError):
    """A service that does not answer."""
