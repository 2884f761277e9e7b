#include "input/image/resize.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

namespace plimsoll::input {
namespace {

// A batch of images of at least this size has left the caches when a step reads it, so they are written past them.
constexpr Bytes kStreamedBytes = 256 * KiB;

}  // namespace

void find_spans(ResizeMethod method, int64_t from, int64_t to, std::vector<PixelSpan>& into) {
  into.resize(static_cast<size_t>(to));
  const double step = static_cast<double>(from) / static_cast<double>(to);
  const auto last_pixel = static_cast<int32_t>(from - 1);
  for (int64_t i = 0; i < to; ++i) {
    PixelSpan& span = into[static_cast<size_t>(i)];
    if (method == ResizeMethod::Area) {
      const double begin = static_cast<double>(i) * step, end = begin + step;
      span.first = std::min(static_cast<int32_t>(begin), last_pixel);
      span.last = std::clamp(static_cast<int32_t>(std::ceil(end)) - 1, span.first, last_pixel);
      span.first_weight = static_cast<float>((std::min(end, span.first + 1.0) - begin) / step);
      span.inner_weight = static_cast<float>(1 / step);
      span.last_weight = span.last == span.first ? 0 : static_cast<float>((end - span.last) / step);
    } else if (method == ResizeMethod::Bilinear) {
      const double centre = (static_cast<double>(i) + 0.5) * step - 0.5;
      const auto left = static_cast<int32_t>(std::floor(centre));
      span.first = std::clamp(left, 0, last_pixel);
      span.last = std::clamp(left + 1, 0, last_pixel);
      span.last_weight = span.first == span.last ? 0 : static_cast<float>(centre - left);
      span.first_weight = 1 - span.last_weight;
    } else {
      span = {static_cast<int32_t>(i), static_cast<int32_t>(i), 1, 1, 0};
    }
  }
}

std::vector<PixelSpan> find_spans(ResizeMethod method, int64_t from, int64_t to) {
  std::vector<PixelSpan> spans;
  find_spans(method, from, to, spans);
  return spans;
}

RowResizer::RowResizer(ResizeMethod method, ImageOutput output)
    : method_(method),
      output_(output),
      finished_(static_cast<size_t>(output.size.width * output.channels + kRowPadding)),
      rounded_(finished_.size()) {
  assert(output.dtype == DType::F32 || output.dtype == DType::U8);
}

Bytes RowResizer::fixed_bytes(const ImageOutput& output) {
  return (output.size.width + output.size.height) * Bytes(sizeof(PixelSpan)) +
         output.size.width / 2 * Bytes(sizeof(PixelPair)) +
         (output.size.width * output.channels + kRowPadding) * Bytes(sizeof(float) + 1);
}

const uint8_t* RowResizer::row(ImageRows& rows, int64_t y) {
  assert(y >= rows_read_ - 2);
  for (; rows_read_ <= y; ++rows_read_) rows.next(rows_.data() + rows_read_ % 2 * row_bytes_);
  return rows_.data() + y % 2 * row_bytes_;
}

void RowResizer::mix_vertically(ImageRows& rows, const PixelSpan& span, int64_t top, int64_t left_byte, int64_t bytes) {
  const auto at = [&](int64_t y) { return row(rows, top + y) + left_byte; };
  const auto weight = [&](int64_t y) {
    return y == span.first ? span.first_weight : y == span.last ? span.last_weight : span.inner_weight;
  };
  const uint8_t* const first = at(span.first);
  const int64_t second = std::min(span.first + 1, span.last);
  mix_two_rows(first, span.first_weight, at(second), second == span.first ? 0 : weight(second), bytes, mixed_.data());
  for (int64_t y = second + 1; y <= span.last; ++y) add_row(at(y), weight(y), bytes, mixed_.data());
}

void RowResizer::store(int64_t y, std::byte* into) {
  const int64_t width = output_.size.width, plane = output_.size.height * width;
  const int channels = output_.channels;
  if (output_.dtype == DType::F32) {
    auto* const floats = reinterpret_cast<float*>(into);
    if (output_.channels_first && channels == 3) {
      float* const first = floats + y * width;
      split_channels(finished_.data(), width, first, first + plane, first + 2 * plane);
    } else {
      float* const place = floats + y * width * channels;
      if (output_.bytes() >= kStreamedBytes) return stream_floats(finished_.data(), width * channels, place);
      std::memcpy(place, finished_.data(), static_cast<size_t>(width * channels) * sizeof(float));
    }
    return;
  }
  auto* const bytes = reinterpret_cast<uint8_t*>(into);
  if (!output_.channels_first || channels == 1)
    return round_to_bytes(finished_.data(), width * channels, bytes + y * width * channels);
  round_to_bytes(finished_.data(), width * channels, rounded_.data());
  for (int c = 0; c < channels; ++c)
    for (int64_t x = 0; x < width; ++x)
      bytes[c * plane + y * width + x] = rounded_[static_cast<size_t>(x * channels + c)];
}

void RowResizer::make_tables(const CropBox& box, bool flips) {
  const ImageSize size{box.height, box.width};
  if (size == tables_for_ && flips == tables_flip_) return;
  tables_for_ = size;
  tables_flip_ = flips;
  find_spans(method_, box.height, output_.size.height, lines_);
  find_spans(method_, box.width, output_.size.width, columns_);
  if (flips) std::reverse(columns_.begin(), columns_.end());
  if (method_ == ResizeMethod::Area || output_.channels != 3) return;
  pairs_.resize(columns_.size() / 2);
  for (size_t i = 0; i < 2 * pairs_.size(); ++i) {
    PixelPair& pair = pairs_[i / 2];
    pair.first[i % 2] = 3 * columns_[i].first;
    pair.last[i % 2] = 3 * columns_[i].last;
    std::fill_n(pair.first_weights + i % 2 * 4, 4, columns_[i].first_weight);
    std::fill_n(pair.last_weights + i % 2 * 4, 4, columns_[i].last_weight);
  }
}

void RowResizer::run(ImageRows& rows, const CropBox& box, bool flips, std::byte* into) {
  const int channels = output_.channels;
  row_bytes_ = rows.size().width * channels;
  rows_read_ = 0;
  rows_.resize(static_cast<size_t>(2 * row_bytes_));
  mixed_.resize(static_cast<size_t>(box.width * channels + kRowPadding));
  make_tables(box, flips);
  const ChannelLine line{output_.scale, output_.offset};
  for (int64_t y = 0; y < output_.size.height; ++y) {
    mix_vertically(rows, lines_[static_cast<size_t>(y)], box.y, box.x * channels, box.width * channels);
    mix_columns(mixed_.data(), columns_, pairs_, channels, line, finished_.data());
    store(y, into);
  }
  if (output_.bytes() >= kStreamedBytes) finish_streaming();
  // Rows below the box are decoded too, so that damage there is found.
  if (rows.size().height > rows_read_) row(rows, rows.size().height - 1);
  rows.finish();
}

}  // namespace plimsoll::input
