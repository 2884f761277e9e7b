// Images that are decoded already, u8 or f32 in memory: cut, mirrored, made brighter, resized.
#pragma once

#include <cstdint>
#include <vector>

#include <plimsoll/formats.h>
#include <plimsoll/types.h>
#include "input/image/image_rows.h"
#include "input/image/pixel_rows.h"

namespace plimsoll::input {

struct ImageLayout {
  ImageSize size;
  int64_t channels = 1;
  DType dtype = DType::U8;  // or f32
  bool channels_first = false;
};

// A part of an image; what lies outside of it is 0.
struct ImageCut {
  int64_t y = 0, x = 0;  // may be negative
  ImageSize size;
  bool flips = false;  // left to right
};
void cut_image(const ImageLayout& from, const void* image, const ImageCut& part, void* into);

// y = (x - mean) * contrast + mean + brightness, with the mean of each channel. For u8 brightness counts 255 times,
// and numbers stay within 0 to 255.
void change_light(const ImageLayout& layout, float brightness, float contrast, void* image);

// Resizes with the same spans as RowResizer. Safe from several threads at once.
class ValueResizer {
 public:
  ValueResizer(const ImageLayout& from, ImageSize to, ResizeMethod method);
  void run(const void* image, void* into) const;

 private:
  template <class T>
  void run_as(const T* image, T* into) const;

  const ImageLayout from_;
  const ImageSize to_;
  const std::vector<PixelSpan> lines_, columns_;
};

}  // namespace plimsoll::input
