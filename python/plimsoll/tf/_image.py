"""tf.image: decoding, resizing, flips, colours; one image [height, width, channels] or a batch of them."""
import numpy as np

from . import _array, _elementwise, _engine, _types
from ._call import operator
from ._convert import convert
from ._random import generator
from ._reduce import reduce_mean
from ._tensor import of_core, of_host
from .errors import InvalidArgumentError


class ResizeMethod:
    BILINEAR = "bilinear"
    NEAREST_NEIGHBOR = "nearest"
    BICUBIC = "bicubic"
    AREA = "area"
    LANCZOS3 = "lanczos3"
    LANCZOS5 = "lanczos5"
    GAUSSIAN = "gaussian"
    MITCHELLCUBIC = "mitchellcubic"


def _contents(value):
    content = convert(value).host_array()
    return content.reshape(())[()]


def _channels_in(data):
    """As many as the file has: 1 or 3; transparency is dropped."""
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return 1 if data[25:26] in (b"\0", b"\4") else 3
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        marker, size = data[at + 1], int.from_bytes(data[at + 2:at + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return 1 if data[at + 9] == 1 else 3
        at += 2 + size
    return 3


def _decoded(contents, channels, dtype, name):
    from plimsoll import _plimsoll
    data = _contents(contents)
    if not isinstance(data, bytes):
        raise InvalidArgumentError(message=f"{name} takes the bytes of a file: tf.io.read_file(path)")
    if channels == 4:
        raise NotImplementedError("plimsoll.tf decodes images of 1 and 3 channels: transparency is dropped")
    try:
        array = _plimsoll.decode_image(data, int(channels) if channels else _channels_in(data))
    except Exception as error:
        raise InvalidArgumentError(message=f"{name}: {error}") from None
    kind = _types.as_dtype(dtype)
    made = of_host(np.asarray(array))
    return made if kind.name == "uint8" else convert_image_dtype(made, kind)


@operator
def decode_jpeg(contents, channels=0, ratio=1, fancy_upscaling=True, try_recover_truncated=False,
                acceptable_fraction=1, dct_method="", name=None):
    made = _decoded(contents, channels, _types.uint8, "DecodeJpeg")
    return made if ratio == 1 else made[::int(ratio), ::int(ratio)]


@operator
def decode_png(contents, channels=0, dtype=_types.uint8, name=None):
    return _decoded(contents, channels, dtype, "DecodePng")


@operator
def decode_image(contents, channels=None, dtype=_types.uint8, name=None, expand_animations=True):
    return _decoded(contents, channels, dtype, "DecodeImage")


def is_jpeg(contents, name=None):
    return of_host(np.asarray(_contents(contents)[:3] == b"\xff\xd8\xff"))


# Sizes.


@operator
def resize(images, size, method="bilinear", preserve_aspect_ratio=False, antialias=False, name=None):
    x = convert(images)
    if x.ndim not in (3, 4):
        raise ValueError("'images' must have either 3 or 4 dimensions.")
    height, width = (int(one) for one in _array.ints(size))
    method = {0: "bilinear", 1: "nearest", 2: "bicubic", 3: "area"}.get(method, method)
    if method not in ("bilinear", "nearest"):
        raise NotImplementedError(f"plimsoll.tf: tf.image.resize has the methods bilinear and nearest, not {method}")
    if antialias:
        raise NotImplementedError("plimsoll.tf: tf.image.resize has no antialias")
    down, across = x.ndim - 3, x.ndim - 2
    if preserve_aspect_ratio:
        share = min(height / x.shape[down], width / x.shape[across])
        height, width = round(x.shape[down] * share), round(x.shape[across] * share)
    if method == "nearest":
        for axis, wanted in ((down, height), (across, width)):
            have = x.shape[axis]
            places = np.minimum(np.floor((np.arange(wanted) + 0.5) * (have / wanted)).astype(np.int32), have - 1)
            x = _array.gather(x, places, axis=axis)
        return x
    if x.is_on_host and (x.ndim == 3 or x._host.dtype != np.float32 or _elementwise.Host.depth):
        return of_host(_bilinear(x._host, height, width, down))
    x = _elementwise.cast(x, _types.float32)
    if (height, width) == (x.shape[down], x.shape[across]):
        return x
    return of_core(_engine.op("resample")(x.core, (down, across), (height, width), "linear", "half_pixel"))


def _bilinear(array, height, width, axis):
    """Half-pixel centres, no antialias: rows first, then columns."""
    for at, wanted in ((axis, height), (axis + 1, width)):
        have = array.shape[at]
        place = (np.arange(wanted, dtype=np.float32) + np.float32(0.5)) * np.float32(have / wanted) - np.float32(0.5)
        low = np.floor(place)
        share = (place - low).astype(np.float32)
        low = low.astype(np.int64)
        shape = [1] * array.ndim
        shape[at] = wanted
        share = share.reshape(shape)
        a = np.take(array, np.clip(low, 0, have - 1), at).astype(np.float32)
        b = np.take(array, np.clip(low + 1, 0, have - 1), at).astype(np.float32)
        array = a + (b - a) * share
    return array


def resize_with_pad(image, target_height, target_width, method="bilinear", antialias=False):
    x = resize(image, (target_height, target_width), method, preserve_aspect_ratio=True)
    return resize_with_crop_or_pad(x, target_height, target_width)


@operator
def resize_with_crop_or_pad(image, target_height, target_width):
    x = convert(image)
    for axis, wanted in ((x.ndim - 3, int(target_height)), (x.ndim - 2, int(target_width))):
        have = x.shape[axis]
        if have > wanted:
            cut = [slice(None)] * x.ndim
            first = (have - wanted) // 2
            cut[axis] = slice(first, first + wanted)
            x = x[tuple(cut)]
        elif have < wanted:
            sides = [(0, 0)] * x.ndim
            sides[axis] = ((wanted - have) // 2, wanted - have - (wanted - have) // 2)
            x = _array.pad(x, sides)
    return x


@operator
def crop_to_bounding_box(image, offset_height, offset_width, target_height, target_width):
    top, left = int(offset_height), int(offset_width)
    return convert(image)[..., top:top + int(target_height), left:left + int(target_width), :]


@operator
def pad_to_bounding_box(image, offset_height, offset_width, target_height, target_width):
    x = convert(image)
    sides = [(0, 0)] * x.ndim
    sides[-3] = (offset_height, target_height - offset_height - x.shape[-3])
    sides[-2] = (offset_width, target_width - offset_width - x.shape[-2])
    return _array.pad(x, sides)


@operator
def central_crop(image, central_fraction):
    x = convert(image)
    cut = [slice(None)] * x.ndim
    for axis in (x.ndim - 3, x.ndim - 2):
        size = x.shape[axis]
        first = int((size - size * float(central_fraction)) / 2)
        cut[axis] = slice(first, size - first)
    return x[tuple(cut)]


def _random_sizes(sizes, wanted):
    return [int(generator().integers(0, have - want + 1)) for have, want in zip(sizes, wanted)]


@operator
def random_crop(value, size, seed=None, name=None):
    x, wanted = convert(value), _array.ints(size)
    first = _random_sizes(x.shape.as_list(), wanted)
    return x[tuple(slice(at, at + want) for at, want in zip(first, wanted))]


# Flips and turns.


@operator
def flip_left_right(image):
    x = convert(image)
    return _array.reverse(x, [x.ndim - 2])


@operator
def flip_up_down(image):
    x = convert(image)
    return _array.reverse(x, [x.ndim - 3])


def _by_chance(image, seed, change):
    x = convert(image)
    draw = generator(seed)
    if x.ndim == 3:
        return change(x) if draw.random() < 0.5 else x
    chosen = of_host((draw.random(x.shape[0]) < 0.5).reshape(-1, 1, 1, 1))
    return _array.where(chosen, change(x), x)


@operator
def random_flip_left_right(image, seed=None):
    return _by_chance(image, seed, flip_left_right)


@operator
def random_flip_up_down(image, seed=None):
    return _by_chance(image, seed, flip_up_down)


@operator
def transpose(image, name=None):
    x = convert(image)
    return _array.transpose(x, (1, 0, 2) if x.ndim == 3 else (0, 2, 1, 3))


@operator
def rot90(image, k=1, name=None):
    x, turns = convert(image), int(k) % 4
    if turns == 2:
        return flip_up_down(flip_left_right(x))
    if turns == 1:
        return flip_up_down(transpose(x))
    return flip_left_right(transpose(x)) if turns == 3 else x


# Colours.


def _as_float(image):
    x = convert(image)
    return (convert_image_dtype(x, _types.float32), x.dtype) if not x.dtype.is_floating else (x, x.dtype)


@operator
def adjust_brightness(image, delta):
    x, kind = _as_float(image)
    return convert_image_dtype(x + float(delta), kind, saturate=True)


@operator
def random_brightness(image, max_delta, seed=None):
    return adjust_brightness(image, generator(seed).uniform(-max_delta, max_delta))


@operator
def adjust_contrast(images, contrast_factor):
    x, kind = _as_float(images)
    mean = reduce_mean(x, (x.ndim - 3, x.ndim - 2), True)
    return convert_image_dtype((x - mean) * of_host(np.float32(contrast_factor)) + mean, kind, saturate=True)


@operator
def random_contrast(image, lower, upper, seed=None):
    return adjust_contrast(image, generator(seed).uniform(lower, upper))


@operator
def rgb_to_grayscale(images, name=None):
    from ._reduce import reduce_sum
    x, kind = _as_float(images)
    return convert_image_dtype(reduce_sum(x * np.array([0.2989, 0.587, 0.114], np.float32), -1, True), kind)


@operator
def grayscale_to_rgb(images, name=None):
    x = convert(images)
    return _array.tile(x, [1] * (x.ndim - 1) + [3])


@operator
def adjust_saturation(image, saturation_factor, name=None):
    x, kind = _as_float(image)
    array = _hsv(x.host_array())
    array[..., 1] = np.clip(array[..., 1] * float(saturation_factor), 0, 1)
    return convert_image_dtype(of_host(_rgb(array)), kind, saturate=True)


@operator
def random_saturation(image, lower, upper, seed=None):
    return adjust_saturation(image, generator(seed).uniform(lower, upper))


@operator
def adjust_hue(image, delta, name=None):
    x, kind = _as_float(image)
    array = _hsv(x.host_array())
    array[..., 0] = (array[..., 0] + float(delta)) % 1
    return convert_image_dtype(of_host(_rgb(array)), kind, saturate=True)


@operator
def random_hue(image, max_delta, seed=None):
    return adjust_hue(image, generator(seed).uniform(-max_delta, max_delta))


@operator
def rgb_to_hsv(images, name=None):
    return of_host(_hsv(convert(images).host_array()))


@operator
def hsv_to_rgb(images, name=None):
    return of_host(_rgb(convert(images).host_array()))


def _hsv(rgb):
    most, least = rgb.max(-1), rgb.min(-1)
    span = most - least
    safe = np.where(span == 0, 1, span)
    r, g, b = rgb[..., 0], rgb[..., 1], rgb[..., 2]
    hue = np.where(most == r, (g - b) / safe, np.where(most == g, 2 + (b - r) / safe, 4 + (r - g) / safe)) / 6 % 1
    return np.stack([np.where(span == 0, 0, hue), np.where(most == 0, 0, span / np.where(most == 0, 1, most)), most],
                    -1).astype(np.float32)


def _rgb(hsv):
    h, s, v = hsv[..., 0] * 6, hsv[..., 1], hsv[..., 2]
    parts = [v - v * s * np.clip(np.minimum((h + n) % 6, 4 - (h + n) % 6), 0, 1)
             for n in (5, 3, 1)]
    return np.stack(parts, -1).astype(np.float32)


@operator
def convert_image_dtype(image, dtype, saturate=False, name=None):
    x, kind = convert(image), _types.as_dtype(dtype)
    if x.dtype is kind:
        return x
    if x.dtype.is_integer and kind.is_floating:
        return _elementwise.cast(x, kind) * (1.0 / float(x.dtype.max))
    if x.dtype.is_floating and kind.is_integer:
        scaled = x * (float(kind.max) + 0.5)
        return _elementwise.saturate_cast(scaled, kind) if saturate else _elementwise.cast(scaled, kind)
    return _elementwise.cast(x, kind)


@operator
def per_image_standardization(image):
    from ._reduce import reduce_std
    x = _elementwise.cast(image, _types.float32)
    axes = tuple(range(x.ndim - 3, x.ndim))
    count = float(np.prod([x.shape[axis] for axis in axes]))
    deviation = _elementwise.maximum(reduce_std(x, axes, True), float(1 / np.sqrt(count)))
    return (x - reduce_mean(x, axes, True)) / deviation


@operator
def total_variation(images, name=None):
    from ._reduce import reduce_sum
    x = convert(images)
    down = _elementwise.abs(x[..., 1:, :, :] - x[..., :-1, :, :])
    across = _elementwise.abs(x[..., :, 1:, :] - x[..., :, :-1, :])
    axes = (-3, -2, -1)
    return reduce_sum(down, axes) + reduce_sum(across, axes)


@operator
def psnr(a, b, max_val, name=None):
    from ._elementwise import log
    error = reduce_mean(_elementwise.square(convert(a) - convert(b)), (-3, -2, -1))
    return 20.0 * float(np.log10(max_val)) - 10.0 / float(np.log(10)) * log(error)


@operator
def encode_png(image, compression=-1, name=None):
    import struct
    import zlib
    array = np.ascontiguousarray(convert(image).host_array())
    height, width, channels = array.shape
    rows = b"".join(b"\0" + row.tobytes() for row in array)

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    colour = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    made = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0))
    made += chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return of_host(np.array(made, object))


