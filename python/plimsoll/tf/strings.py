"""tf.strings: text, on the host."""
import re

import numpy as np

from . import _types
from ._absent import absent
from ._call import operator
from ._convert import convert
from ._tensor import of_host


def _each(function, value):
    array = convert(value).host_array()
    made = np.empty(array.shape, object)
    flat = made.reshape(-1) if made.ndim else made
    for i, one in enumerate(array.ravel()):
        if made.ndim:
            flat[i] = function(one)
        else:
            made[()] = function(one)
    return of_host(made)


@operator
def join(inputs, separator="", name=None):
    parts = np.broadcast_arrays(*(convert(one).host_array() for one in inputs))
    by = separator.encode()
    made = np.empty(parts[0].shape, object)
    for place in np.ndindex(parts[0].shape):
        made[place] = by.join(one[place] for one in parts)
    return of_host(made)


@operator
def split(input, sep=None, maxsplit=-1, name=None):
    array = convert(input).host_array()
    by = None if sep is None else sep.encode() if isinstance(sep, str) else sep
    if array.ndim == 0:
        return of_host(np.array(array[()].split(by, int(maxsplit)), object))
    parts = [one.split(by, int(maxsplit)) for one in array]
    if len({len(one) for one in parts}) != 1:
        raise NotImplementedError("plimsoll.tf has no ragged tensors: split one string at a time, in Dataset.map")
    return of_host(np.array(parts, object))


@operator
def length(input, unit="BYTE", name=None):
    array = convert(input).host_array()
    return of_host(np.vectorize(len, otypes=[np.int32])(array).astype(np.int32))


@operator
def lower(input, encoding="", name=None):
    return _each(bytes.lower, input)


@operator
def upper(input, encoding="", name=None):
    return _each(bytes.upper, input)


@operator
def strip(input, name=None):
    return _each(bytes.strip, input)


@operator
def substr(input, pos, len, unit="BYTE", name=None):
    first, count = int(pos), int(len)
    return _each(lambda one: one[first:first + count], input)


@operator
def regex_replace(input, pattern, rewrite, replace_global=True, name=None):
    shape, to = re.compile(pattern.encode()), re.sub(rb"\\(\d)", rb"\\\1", rewrite.encode())
    return _each(lambda one: shape.sub(to, one, count=0 if replace_global else 1), input)


@operator
def regex_full_match(input, pattern, name=None):
    shape = re.compile(pattern.encode())
    return of_host(np.vectorize(lambda one: shape.fullmatch(one) is not None, otypes=[bool])(convert(input).host_array()))


@operator
def to_number(input, out_type=_types.float32, name=None):
    kind = _types.as_dtype(out_type)
    return of_host(np.vectorize(float if kind.is_floating else int, otypes=[kind.as_numpy_dtype])(
        convert(input).host_array()).astype(kind.as_numpy_dtype))


@operator
def as_string(input, precision=-1, name=None, **options):
    def text(one):
        if isinstance(one, (bool, np.bool_)):
            return b"true" if one else b"false"
        if isinstance(one, (float, np.floating)):
            return f"{float(one):.{precision if precision >= 0 else 6}{'f' if precision >= 0 else 'f'}}".encode()
        return str(one).encode()
    array = convert(input).host_array()
    made = np.empty(array.shape, object)
    for place in np.ndindex(array.shape):
        made[place] = text(array[place])
    return of_host(made)


def format(template, inputs, placeholder="{}", summarize=3, name=None):
    given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    for one in given:
        template = template.replace(placeholder, str(np.asarray(convert(one))), 1)
    return of_host(np.array(template.encode(), object))


__getattr__ = absent("tf.strings", globals())
