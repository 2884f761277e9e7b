// Resizes an image while its rows arrive, and writes each finished row as numbers: two rows are held, not the image.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <plimsoll/formats.h>
#include <plimsoll/types.h>
#include "input/image/image_rows.h"
#include "input/image/pixel_rows.h"

namespace plimsoll::input {

struct CropBox {
  int64_t y = 0, x = 0;
  int64_t height = 0, width = 0;
};

struct ImageOutput {
  ImageSize size;
  int channels = 3;
  DType dtype = DType::F32;  // or u8, rounded
  bool channels_first = false;
  // y = x * scale + offset for each channel; only for f32.
  std::array<float, 3> scale = {1, 1, 1};
  std::array<float, 3> offset = {0, 0, 0};
  Bytes bytes() const { return size.height * size.width * channels * size_of(dtype); }
};

// What each of `to` pixels or rows takes from those there are.
void find_spans(ResizeMethod method, int64_t from, int64_t to, std::vector<PixelSpan>& into);
std::vector<PixelSpan> find_spans(ResizeMethod method, int64_t from, int64_t to);

// For one thread, one image after the other.
class RowResizer {
 public:
  RowResizer(ResizeMethod method, ImageOutput output);

  // Bytes of its rows, for each pixel of an image's width.
  static constexpr Bytes bytes_per_column(int channels) { return channels * (2 + Bytes(sizeof(float))); }
  // Bytes of its tables and the finished row.
  static Bytes fixed_bytes(const ImageOutput& output);

  // Reads rows up to the end of the box and fills `into`, mirrored when `flips`. Throws what the rows throw.
  void run(ImageRows& rows, const CropBox& box, bool flips, std::byte* into);

 private:
  const uint8_t* row(ImageRows& rows, int64_t y);
  void mix_vertically(ImageRows& rows, const PixelSpan& span, int64_t top, int64_t left_byte, int64_t bytes);
  void store(int64_t y, std::byte* into);
  // Does nothing when the box has the size of the one before.
  void make_tables(const CropBox& box, bool flips);

  const ResizeMethod method_;
  const ImageOutput output_;
  std::vector<PixelSpan> lines_, columns_;
  std::vector<PixelPair> pairs_;     // of columns_
  ImageSize tables_for_ = {-1, -1};  // and flipped
  bool tables_flip_ = false;
  std::vector<uint8_t> rows_;  // the last two, each in the place of its parity
  int64_t row_bytes_ = 0;
  int64_t rows_read_ = 0;
  std::vector<float> mixed_;      // one row of the box's width
  std::vector<float> finished_;   // one row of the output's width
  std::vector<uint8_t> rounded_;  // the same as bytes
};

}  // namespace plimsoll::input
