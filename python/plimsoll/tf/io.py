"""tf.io: files."""
import os

import numpy as np

from . import _image
from ._absent import absent
from ._call import operator
from ._convert import convert
from ._tensor import of_host
from .errors import NotFoundError

decode_jpeg, decode_png, decode_image, encode_png = (_image.decode_jpeg, _image.decode_png, _image.decode_image,
                                                     _image.encode_png)
is_jpeg = _image.is_jpeg


def _path(filename):
    name = convert(filename).host_array().reshape(())[()] if not isinstance(filename, (str, os.PathLike)) else filename
    return os.fsdecode(name)


@operator
def read_file(filename, name=None):
    try:
        with open(_path(filename), "rb") as file:
            return of_host(np.array(file.read(), object))
    except OSError as error:
        raise NotFoundError(message=f"{_path(filename)}; {error.strerror}") from None


def write_file(filename, contents, name=None):
    path = _path(filename)
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "wb") as file:
        file.write(convert(contents).host_array().reshape(())[()])


@operator
def decode_raw(input_bytes, out_type, little_endian=True, fixed_length=None, name=None):
    from ._types import as_dtype
    kind = np.dtype(as_dtype(out_type).as_numpy_dtype)
    return of_host(np.frombuffer(convert(input_bytes).host_array().reshape(())[()], kind).copy())


@operator
def decode_csv(records, record_defaults, field_delim=",", use_quote_delim=True, na_value="", select_cols=None, name=None):
    import csv
    line = convert(records).host_array().reshape(())[()].decode()
    fields = next(csv.reader([line], delimiter=field_delim))
    made = []
    for i, default in enumerate(record_defaults):
        text = fields[select_cols[i] if select_cols else i]
        kind = convert(default if not isinstance(default, list) or default else [0.0])
        first = kind.host_array().ravel()
        if text == na_value:
            made.append(of_host(first[0]))
        elif kind.dtype.name == "string":
            made.append(convert(text))
        else:
            made.append(of_host(np.asarray(float(text) if kind.dtype.is_floating else int(text),
                                           kind.dtype.as_numpy_dtype)))
    return made


def matching_files(pattern, name=None):
    import glob
    return of_host(np.array([one.encode() for one in sorted(glob.glob(_path(pattern)))], object))


class _Files:
    """tf.io.gfile: files of this machine."""

    GFile = staticmethod(open)
    exists, isdir, listdir = staticmethod(os.path.exists), staticmethod(os.path.isdir), staticmethod(os.listdir)
    join, remove, rename = staticmethod(os.path.join), staticmethod(os.remove), staticmethod(os.replace)

    @staticmethod
    def makedirs(path):
        os.makedirs(path, exist_ok=True)

    mkdir = makedirs

    @staticmethod
    def glob(pattern):
        import glob
        return sorted(glob.glob(pattern))

    @staticmethod
    def rmtree(path):
        import shutil
        shutil.rmtree(path)


gfile = _Files()
__getattr__ = absent("tf.io", globals(), {
    "parse_single_example": "plimsoll.data.Dataset.tfrecord, which parses records",
    "parse_example": "plimsoll.data.Dataset.tfrecord, which parses records",
    "TFRecordWriter": "numpy.savez or numpy.save"})
