#include "input/image/image_rows.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "memory/file.h"

namespace plimsoll::input {

std::span<const std::byte> ImageInput::next_piece() noexcept {
  std::span<const std::byte> piece = std::exchange(memory_, {});
  if (descriptor_ >= 0) {
    const ssize_t got =
        memory::uninterrupted([&] { return ::pread(descriptor_, buffer_, static_cast<size_t>(kBufferBytes), given_); });
    if (got < 0) error_number_ = errno;
    piece = {buffer_, static_cast<size_t>(got < 0 ? 0 : got)};
  }
  given_ += static_cast<Bytes>(piece.size());
  return piece;
}

void refuse_image(const ImageInput& input, Bytes unused, const std::string& what) {
  if (input.error_number() != 0)
    throw Error(fmt::format("{}: at byte {}: {}", input.place(), input.given(), std::strerror(input.error_number())),
                ErrorKind::BadData);
  throw Error(fmt::format("{}: at byte {}: {}", input.place(), input.given() - unused, what), ErrorKind::BadData);
}

void expect_within(const DecodeLimits& limits, ImageSize size, Bytes decoder_bytes, const ImageInput& input) {
  if (size.height > limits.most_pixels / size.width)
    throw Error(fmt::format("{}: {} x {} pixels are more than the {} that are allowed (a decompression bomb?); raise "
                            "most_pixels if the image is meant",
                            input.place(), size.width, size.height, limits.most_pixels),
                ErrorKind::BadData);
  const Bytes needed = decoder_bytes + size.width * limits.bytes_per_column;
  if (needed > limits.image_bytes)
    throw Error(
        fmt::format("{}: {} x {} pixels take {} to decode, {} are allowed; raise image_bytes, or save the image "
                    "smaller or not progressive or interlaced",
                    input.place(), size.width, size.height, format_bytes(needed), format_bytes(limits.image_bytes)),
        ErrorKind::BadData);
}

}  // namespace plimsoll::input
