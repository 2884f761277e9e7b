// JPEG and PNG images as numbers of one size: decoded, cropped, resized, mirrored and normalised in one pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <plimsoll/types.h>
#include "input/files/table.h"
#include "input/image/resize.h"

namespace plimsoll::input {

// Settings that may differ from image to image.
struct ImageChange {
  std::optional<CropBox> crop = std::nullopt;  // in pixels of the file, instead of the central crop
  bool flips = false;                          // left to right
};

// For one thread.
class ImageReader {
 public:
  // Throws Error(Usage) for options that make no sense.
  explicit ImageReader(const ImageOptions& options);
  ~ImageReader();

  static Bytes bytes(const ImageOptions& options);  // at most, whatever the images are
  static TableField field(const std::string& name, const ImageOptions& options);

  // Throw Error(BadData) that starts with the path or the place.
  void read(const std::string& path, std::byte* into, const ImageChange& change = {});
  void read(std::span<const std::byte> encoded, const std::string& place, std::byte* into,
            const ImageChange& change = {});
  // Decoded already: u8, channels interleaved, as many as the options say.
  void read_pixels(const uint8_t* pixels, ImageSize size, const std::string& place, std::byte* into,
                   const ImageChange& change = {});

 private:
  struct Decoders;
  void decode(ImageInput& input, std::span<const std::byte> front, std::byte* into, const ImageChange& change);
  CropBox box_for(ImageSize size, const ImageChange& change, const std::string& place) const;
  void expect_size(const CropBox& box, const std::string& place) const;

  const ImageOptions options_;
  RowResizer resizer_;
  std::unique_ptr<std::byte[]> buffer_;
  std::unique_ptr<Decoders> decoders_;
};

enum class ImageKind : uint8_t { None, Jpeg, Png };
ImageKind image_kind(std::span<const std::byte> front);

}  // namespace plimsoll::input
