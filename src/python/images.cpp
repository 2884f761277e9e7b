// Images that Python has as bytes, decoded: what tf.image.decode_jpeg gives.
#include <cstddef>
#include <span>
#include <string>

#include <nanobind/nanobind.h>

#include <plimsoll/error.h>
#include <plimsoll/formats.h>
#include "input/image/image.h"
#include "input/image/jpeg.h"
#include "input/image/png.h"
#include "python/arrays.h"
#include "python/bind.h"

namespace plimsoll::python {
namespace {

nb::object read_rows(input::ImageRows& rows, input::ImageSize size, int64_t channels) {
  const NumpyArray made = make_numpy(DType::U8, {size.height, size.width, channels});
  {
    const nb::gil_scoped_release release;
    auto* into = static_cast<uint8_t*>(made.data);
    for (int64_t row = 0; row < size.height; ++row) rows.next(into + row * size.width * channels);
    rows.finish();
  }
  return made.array;
}

nb::object decode_image(const nb::bytes& encoded, int channels) {
  if (channels != 1 && channels != 3)
    throw Error("decode_image: channels must be 3 (RGB) or 1 (gray); transparency is dropped", ErrorKind::Usage);
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(encoded.c_str()), encoded.size());
  const std::string name = "image";
  const ImageOptions options;
  const input::DecodeLimits limits{options.image_bytes, channels, options.most_pixels};
  input::ImageInput input(bytes, name);
  switch (input::image_kind(bytes)) {
    case input::ImageKind::Jpeg: {
      input::JpegDecoder decoder;
      const input::ImageSize size = decoder.open(input, limits);
      decoder.start(channels, size);
      return read_rows(decoder, size, channels);
    }
    case input::ImageKind::Png: {
      input::PngDecoder decoder;
      return read_rows(decoder, decoder.open(input, limits, channels), channels);
    }
    case input::ImageKind::None:
      break;
  }
  throw Error("decode_image: these bytes are neither a JPEG nor a PNG image", ErrorKind::BadData);
}

}  // namespace

void bind_images(nb::module_& module) {
  module.def("decode_image", decode_image, nb::arg("encoded"), nb::arg("channels") = 3,
             nb::sig("def decode_image(encoded: bytes, channels: int = 3) -> numpy.ndarray"),
             "A JPEG or PNG image as an array of bytes, [height, width, channels].");
}

}  // namespace plimsoll::python
