"""tf.summary: scalars in event files that TensorBoard reads."""
import os
import socket
import struct
import time

from ._absent import absent

_default = []
_step = [None]


def _varint(number):
    made = b""
    while True:
        if number < 128:
            return made + bytes([number])
        made += bytes([number & 127 | 128])
        number >>= 7


def _field(number, content):
    return _varint(number << 3 | 2) + _varint(len(content)) + content


_TABLE = []


def _crc(data):
    if not _TABLE:
        for i in range(256):
            for _ in range(8):
                i = i >> 1 ^ 0x82F63B78 if i & 1 else i >> 1
            _TABLE.append(i)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


class SummaryWriter:
    """Writes one event file."""

    def __init__(self, logdir):
        os.makedirs(logdir, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{id(self)}"
        self._file = open(os.path.join(logdir, name), "ab")
        self._write(_field(3, b"brain.Event:2"))

    def _write(self, content):
        event = b"\x09" + struct.pack("<d", time.time()) + content
        head = struct.pack("<Q", len(event))
        self._file.write(head + struct.pack("<I", _crc(head)) + event + struct.pack("<I", _crc(event)))

    def scalar(self, name, value, step):
        data = _field(1, name.encode()) + b"\x15" + struct.pack("<f", float(value))
        self._write(b"\x10" + _varint(int(step)) + _field(5, _field(1, data)))

    def flush(self):
        self._file.flush()

    def close(self):
        self._file.close()

    def as_default(self, step=None):
        return _AsDefault(self, step)


class _AsDefault:
    def __init__(self, writer, step):
        self.writer, self.step = writer, step

    def __enter__(self):
        _default.append(self.writer)
        self.before = _step[0]
        if self.step is not None:
            _step[0] = int(self.step)
        return self.writer

    def __exit__(self, *raised):
        _default.pop().flush()
        _step[0] = self.before


def create_file_writer(logdir, max_queue=None, flush_millis=None, filename_suffix=None, name=None):
    return SummaryWriter(os.fspath(logdir))


def scalar(name, data, step=None, description=None):
    if not _default:
        return False
    at = step if step is not None else _step[0]
    if at is None:
        raise ValueError("No step set. Please specify one either through the `step` argument or through "
                         "tf.summary.experimental.set_step()")
    _default[-1].scalar(name, float(data), int(at))
    return True


class experimental:
    @staticmethod
    def set_step(step):
        _step[0] = int(step)

    @staticmethod
    def get_step():
        return _step[0]


def flush(writer=None):
    for one in [writer] if writer is not None else _default:
        one.flush()


__getattr__ = absent("tf.summary", globals(), {"histogram": "plimsoll's event_files callback",
                                               "image": "files of your own", "trace_on": "plimsoll.profile"})
