#include "input/image/image_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "input/image/resize.h"

namespace plimsoll::input {
namespace {

// Images with channels first are treated as one image of one channel for each.
struct Planes {
  explicit Planes(const ImageLayout& layout)
      : count(layout.channels_first ? layout.channels : 1), channels(layout.channels_first ? 1 : layout.channels) {}
  int64_t count, channels;
};

template <class T>
T rounded(float value) {
  if constexpr (std::is_same_v<T, uint8_t>)
    // Rounds: the value is not negative. lround would not become a vector instruction.
    return static_cast<uint8_t>(std::clamp(value, 0.0F, 255.0F) + 0.5F);  // NOLINT(bugprone-incorrect-roundings)
  else
    return value;
}

template <class T>
void cut_plane(const T* from, ImageSize size, int64_t channels, const ImageCut& part, T* into) {
  for (int64_t y = 0; y < part.size.height; ++y)
    for (int64_t x = 0; x < part.size.width; ++x) {
      const int64_t column = part.x + (part.flips ? part.size.width - 1 - x : x), line = part.y + y;
      const bool is_inside = line >= 0 && line < size.height && column >= 0 && column < size.width;
      const T* const pixel = from + (line * size.width + column) * channels;
      for (int64_t c = 0; c < channels; ++c) *into++ = is_inside ? pixel[c] : T{0};
    }
}

template <class T>
void cut_planes(const ImageLayout& layout, const T* image, const ImageCut& part, T* into) {
  const Planes planes(layout);
  for (int64_t plane = 0; plane < planes.count; ++plane)
    cut_plane(image + plane * layout.size.height * layout.size.width, layout.size, planes.channels, part,
              into + plane * part.size.height * part.size.width);
}

template <class T>
void change_channel(T* first, int64_t pixels, int64_t stride, float brightness, float contrast) {
  double sum = 0;
  for (int64_t i = 0; i < pixels; ++i) sum += static_cast<double>(first[i * stride]);
  const auto mean = static_cast<float>(sum / static_cast<double>(pixels));
  for (int64_t i = 0; i < pixels; ++i)
    first[i * stride] = rounded<T>((static_cast<float>(first[i * stride]) - mean) * contrast + mean + brightness);
}

template <class T>
void change_channels(const ImageLayout& layout, float brightness, float contrast, T* image) {
  const int64_t pixels = layout.size.height * layout.size.width;
  for (int64_t c = 0; c < layout.channels; ++c)
    change_channel(image + (layout.channels_first ? c * pixels : c), pixels,
                   layout.channels_first ? 1 : layout.channels, brightness, contrast);
}

// The sum of the numbers under one of the output, `step` numbers apart.
template <class T>
float mix(const T* from, const PixelSpan& span, int64_t step) {
  float inner = 0;
  for (int64_t i = span.first + 1; i < span.last; ++i) inner += static_cast<float>(from[i * step]);
  return static_cast<float>(from[span.first * step]) * span.first_weight + inner * span.inner_weight +
         (span.last > span.first ? static_cast<float>(from[span.last * step]) * span.last_weight : 0);
}

}  // namespace

void cut_image(const ImageLayout& from, const void* image, const ImageCut& part, void* into) {
  if (from.dtype == DType::U8)
    cut_planes(from, static_cast<const uint8_t*>(image), part, static_cast<uint8_t*>(into));
  else
    cut_planes(from, static_cast<const float*>(image), part, static_cast<float*>(into));
}

void change_light(const ImageLayout& layout, float brightness, float contrast, void* image) {
  if (layout.dtype == DType::U8)
    change_channels(layout, brightness * 255, contrast, static_cast<uint8_t*>(image));
  else
    change_channels(layout, brightness, contrast, static_cast<float*>(image));
}

ValueResizer::ValueResizer(const ImageLayout& from, ImageSize to, ResizeMethod method)
    : from_(from),
      to_(to),
      lines_(find_spans(method, from.size.height, to.height)),
      columns_(find_spans(method, from.size.width, to.width)) {}

void ValueResizer::run(const void* image, void* into) const {
  if (from_.dtype == DType::U8)
    run_as(static_cast<const uint8_t*>(image), static_cast<uint8_t*>(into));
  else
    run_as(static_cast<const float*>(image), static_cast<float*>(into));
}

template <class T>
void ValueResizer::run_as(const T* image, T* into) const {
  const Planes planes(from_);
  const int64_t channels = planes.channels, row = from_.size.width * channels;
  for (int64_t plane = 0; plane < planes.count; ++plane, image += from_.size.height * row)
    for (const PixelSpan& line : lines_)
      for (const PixelSpan& column : columns_)
        for (int64_t c = 0; c < channels; ++c) {
          const auto across = [&](int64_t y) { return mix(image + y * row + c, column, channels); };
          float inner = 0;
          for (int64_t y = line.first + 1; y < line.last; ++y) inner += across(y);
          const float sum = across(line.first) * line.first_weight + inner * line.inner_weight +
                            (line.last > line.first ? across(line.last) * line.last_weight : 0);
          *into++ = rounded<T>(sum);
        }
}

}  // namespace plimsoll::input
