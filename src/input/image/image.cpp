#include "input/image/image.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "input/image/jpeg.h"
#include "input/image/png.h"
#include "memory/file.h"

namespace plimsoll::input {
namespace {

constexpr Bytes kDecoderStates = 64 * KiB;

[[noreturn]] void misuse(const std::string& what) { throw Error("image options: " + what, ErrorKind::Usage); }

// One number for all channels, or one for each.
float channel_value(const std::vector<float>& values, int channel, float without) {
  if (values.empty()) return without;
  return values[values.size() == 1 ? 0 : static_cast<size_t>(channel)];
}

ImageOutput output_of(const ImageOptions& options) {
  if (options.height < 1 || options.width < 1)
    misuse(fmt::format("a size of {} x {} is none", options.width, options.height));
  if (options.channels != 1 && options.channels != 3)
    misuse(fmt::format("{} channels; give 3 (RGB) or 1 (gray)", options.channels));
  if (options.dtype != DType::F32 && options.dtype != DType::U8)
    misuse(fmt::format("images cannot be {}; give u8 or f32", name_of(options.dtype)));
  if (!(options.central_crop > 0 && options.central_crop <= 1))
    misuse(fmt::format("a central crop of {}; give a part between 0 and 1", options.central_crop));
  const bool is_plain = options.scale == 1 && options.mean.empty() && options.stddev.empty();
  if (options.dtype == DType::U8 && !is_plain) misuse("normalising needs dtype f32");
  ImageOutput output{.size = {options.height, options.width},
                     .channels = options.channels,
                     .dtype = options.dtype,
                     .channels_first = options.channels_first};
  for (const auto* values : {&options.mean, &options.stddev})
    if (values->size() > 1 && values->size() != static_cast<size_t>(options.channels))
      misuse(fmt::format("{} numbers to normalise {} channels", values->size(), options.channels));
  for (int c = 0; c < options.channels; ++c) {
    const float deviation = channel_value(options.stddev, c, 1);
    if (!(deviation > 0)) misuse(fmt::format("a deviation of {}", deviation));
    output.scale[static_cast<size_t>(c)] = options.scale / deviation;
    output.offset[static_cast<size_t>(c)] = -channel_value(options.mean, c, 0) / deviation;
  }
  return output;
}

class PixelRows final : public ImageRows {
 public:
  PixelRows(const uint8_t* pixels, ImageSize size, int channels)
      : at_(pixels), size_(size), row_bytes_(static_cast<size_t>(size.width * channels)) {}
  ImageSize size() const override { return size_; }
  void next(uint8_t* into) override {
    std::memcpy(into, at_, row_bytes_);
    at_ += row_bytes_;
  }

 private:
  const uint8_t* at_;
  ImageSize size_;
  size_t row_bytes_;
};

// The same part of an image that was decoded smaller.
CropBox scaled(const CropBox& box, ImageSize from, ImageSize to) {
  if (from == to) return box;
  const auto part = [](int64_t value, int64_t whole, int64_t new_whole) {
    return std::lround(static_cast<double>(value) * static_cast<double>(new_whole) / static_cast<double>(whole));
  };
  const int64_t top = part(box.y, from.height, to.height), left = part(box.x, from.width, to.width);
  const int64_t bottom = part(box.y + box.height, from.height, to.height);
  const int64_t right = part(box.x + box.width, from.width, to.width);
  return {top, left, std::max<int64_t>(1, bottom - top), std::max<int64_t>(1, right - left)};
}

}  // namespace

struct ImageReader::Decoders {
  JpegDecoder jpeg;
  PngDecoder png;
};

ImageKind image_kind(std::span<const std::byte> front) {
  const std::string_view text(reinterpret_cast<const char*>(front.data()), front.size());
  if (text.starts_with("\xff\xd8\xff")) return ImageKind::Jpeg;
  return text.starts_with("\x89PNG\r\n\x1a\n") ? ImageKind::Png : ImageKind::None;
}

ImageReader::ImageReader(const ImageOptions& options)
    : options_(options),
      resizer_(options.resize, output_of(options)),
      buffer_(new std::byte[static_cast<size_t>(ImageInput::kBufferBytes)]),
      decoders_(std::make_unique<Decoders>()) {}

ImageReader::~ImageReader() = default;

Bytes ImageReader::bytes(const ImageOptions& options) {
  return options.image_bytes + kDecoderStates + ImageInput::kBufferBytes + RowResizer::fixed_bytes(output_of(options));
}

TableField ImageReader::field(const std::string& name, const ImageOptions& options) {
  if (options.channels_first) return {name, options.dtype, {options.channels, options.height, options.width}};
  return {name, options.dtype, {options.height, options.width, options.channels}};
}

CropBox ImageReader::box_for(ImageSize size, const ImageChange& change, const std::string& place) const {
  if (change.crop) {
    const CropBox& box = *change.crop;
    if (box.y < 0 || box.x < 0 || box.height < 1 || box.width < 1 || box.y > size.height - box.height ||
        box.x > size.width - box.width)
      throw Error(fmt::format("{}: a crop of {} x {} at ({}, {}) lies outside the image of {} x {}", place, box.width,
                              box.height, box.x, box.y, size.width, size.height),
                  ErrorKind::BadData);
    return box;
  }
  // As tf.image.central_crop: what is cut off is rounded down on each side.
  const auto margin = [&](int64_t side) {
    return static_cast<int64_t>((static_cast<double>(side) - static_cast<double>(side) * options_.central_crop) / 2);
  };
  const int64_t y = margin(size.height), x = margin(size.width);
  return {y, x, size.height - 2 * y, size.width - 2 * x};
}

void ImageReader::expect_size(const CropBox& box, const std::string& place) const {
  if (options_.resize != ResizeMethod::None || (box.width == options_.width && box.height == options_.height)) return;
  throw Error(fmt::format("{}: the image is {} x {}, but {} x {} is wanted; ask for resizing", place, box.width,
                          box.height, options_.width, options_.height),
              ErrorKind::BadData);
}

void ImageReader::read(const std::string& path, std::byte* into, const ImageChange& change) {
  const memory::File file = memory::File::open(path);
  std::byte front[8] = {};
  const Bytes got = file.read_some(0, sizeof front, front, path);
  ImageInput input(file.descriptor(), buffer_.get(), path);
  decode(input, std::span(front).first(static_cast<size_t>(got)), into, change);
}

void ImageReader::read(std::span<const std::byte> encoded, const std::string& place, std::byte* into,
                       const ImageChange& change) {
  ImageInput input(encoded, place);
  decode(input, encoded, into, change);
}

void ImageReader::decode(ImageInput& input, std::span<const std::byte> front, std::byte* into,
                         const ImageChange& change) {
  const ImageKind kind = image_kind(front);
  if (kind == ImageKind::None)
    refuse_image(input, 0, front.empty() ? "the image is empty" : "this is neither JPEG nor PNG");
  const DecodeLimits limits{options_.image_bytes, RowResizer::bytes_per_column(options_.channels),
                            options_.most_pixels};
  const ImageSize size = kind == ImageKind::Jpeg ? decoders_->jpeg.open(input, limits)
                                                 : decoders_->png.open(input, limits, options_.channels);
  const CropBox box = box_for(size, change, input.place());
  expect_size(box, input.place());
  if (kind == ImageKind::Png) return resizer_.run(decoders_->png, box, change.flips, into);
  ImageSize least = size;
  if (options_.shrinks_in_decoder && options_.resize != ResizeMethod::None) {
    // The size of the whole image at which the box is as large as the output.
    const auto whole = [](int64_t wanted, int64_t all, int64_t part) { return (wanted * all + part - 1) / part; };
    least = {whole(options_.height, size.height, box.height), whole(options_.width, size.width, box.width)};
  }
  decoders_->jpeg.start(options_.channels, least);
  resizer_.run(decoders_->jpeg, scaled(box, size, decoders_->jpeg.size()), change.flips, into);
}

void ImageReader::read_pixels(const uint8_t* pixels, ImageSize size, const std::string& place, std::byte* into,
                              const ImageChange& change) {
  const CropBox box = box_for(size, change, place);
  expect_size(box, place);
  PixelRows rows(pixels, size, options_.channels);
  resizer_.run(rows, box, change.flips, into);
}

}  // namespace plimsoll::input
