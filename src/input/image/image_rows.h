// An image that comes row by row: what decoders give and what resizing takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <plimsoll/types.h>

namespace plimsoll::input {

struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
  bool operator==(const ImageSize&) const = default;
};

// Rows of u8, channels interleaved, from the top.
class ImageRows {
 public:
  virtual ~ImageRows() = default;
  virtual ImageSize size() const = 0;
  // The next row, width * channels bytes. Throws Error(BadData).
  virtual void next(uint8_t* into) = 0;
  // After the last row: what the file holds behind it is checked.
  virtual void finish() {}
};

// What a decoder may take and accept.
struct DecodeLimits {
  Bytes image_bytes = 0;       // of all buffers whose size depends on the image
  Bytes bytes_per_column = 0;  // of them, what the reader takes beside the decoder
  int64_t most_pixels = 0;     // more is refused as a decompression bomb
};

// The bytes of an encoded image, in pieces: all of them in memory, or a file through a small buffer.
class ImageInput {
 public:
  static constexpr Bytes kBufferBytes = 64 * KiB;

  ImageInput(std::span<const std::byte> bytes, const std::string& place) : place_(place), memory_(bytes) {}
  // The buffer has kBufferBytes.
  ImageInput(int descriptor, std::byte* buffer, const std::string& place)
      : place_(place), descriptor_(descriptor), buffer_(buffer) {}

  // Called by code in C, so it does not throw: empty at the end, and after an error of the system.
  std::span<const std::byte> next_piece() noexcept;
  Bytes given() const { return given_; }
  int error_number() const { return error_number_; }
  const std::string& place() const { return place_; }  // "cat.jpg": starts the text of errors

 private:
  const std::string& place_;
  std::span<const std::byte> memory_;
  int descriptor_ = -1;
  std::byte* buffer_ = nullptr;
  Bytes given_ = 0;
  int error_number_ = 0;
};

// Throws Error(BadData) at the byte where the input stands, less what the decoder has not used yet.
[[noreturn]] void refuse_image(const ImageInput& input, Bytes unused, const std::string& what);

// Throws Error(BadData) for too many pixels or too much memory.
void expect_within(const DecodeLimits& limits, ImageSize size, Bytes decoder_bytes, const ImageInput& input);

}  // namespace plimsoll::input
