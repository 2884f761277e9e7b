// Decodes JPEG row by row with libjpeg-turbo, in bounded memory.
#pragma once

#include <cstdint>
#include <memory>

#include "input/image/image_rows.h"

namespace plimsoll::input {

// For one thread, one image after the other.
class JpegDecoder final : public ImageRows {
 public:
  JpegDecoder();
  ~JpegDecoder() override;

  // Reads the header. The input must stay until the last row. Throws Error(BadData).
  ImageSize open(ImageInput& input, DecodeLimits limits);
  // Decodes at 1/2, 1/4 or 1/8 of the size, which is much faster, when both sides are then still at least `least`.
  // `channels` is 3 (RGB) or 1 (gray).
  void start(int channels, ImageSize least);

  ImageSize size() const override;
  void next(uint8_t* into) override;
  void finish() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plimsoll::input
