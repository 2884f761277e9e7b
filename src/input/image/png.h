// Decodes PNG row by row with libpng, in bounded memory.
#pragma once

#include <cstdint>
#include <memory>

#include "input/image/image_rows.h"

namespace plimsoll::input {

// For one thread, one image after the other. Transparency is dropped, 16 bits become 8.
class PngDecoder final : public ImageRows {
 public:
  PngDecoder();
  ~PngDecoder() override;

  // Reads the header. The input must stay until the last row. `channels` is 3 (RGB) or 1 (gray). Throws Error(BadData).
  ImageSize open(ImageInput& input, DecodeLimits limits, int channels);

  ImageSize size() const override;
  void next(uint8_t* into) override;
  void finish() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plimsoll::input
