// How files become numbers: options of images, CSV columns and TFRecord features.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <plimsoll/types.h>

namespace plimsoll {

enum class ResizeMethod : uint8_t {
  None,      // the image must have the size that is wanted
  Bilinear,  // between the four nearest pixels, pixel centres at halves: tf.image.resize
  Area,      // the mean of all pixels under the new one
};

// JPEG and PNG images as numbers of one size.
struct ImageOptions {
  int64_t height = 224;
  int64_t width = 224;
  int channels = 3;  // RGB, or 1: gray
  ResizeMethod resize = ResizeMethod::Bilinear;
  double central_crop = 1;  // the part of each side that is kept, before resizing
  DType dtype = DType::U8;  // or f32
  bool channels_first = false;
  // With f32: y = (x * scale - mean) / stddev for each channel; one number stands for all channels.
  float scale = 1;
  std::vector<float> mean = {};
  std::vector<float> stddev = {};
  // JPEG may be decoded at 1/2, 1/4 or 1/8 where that is no smaller than what is wanted: faster, and smoother than
  // bilinear resizing of the whole. False: every pixel is decoded.
  bool shrinks_in_decoder = true;
  Bytes image_bytes = 8 * MiB;  // that decoding one image may take
  // Names of classes by their numbers, such as Dataset::class_names of other data; empty: those that are there, sorted.
  // Another name is refused.
  std::vector<std::string> classes = {};
  int64_t most_pixels = 178'956'970;  // more is taken for a decompression bomb; the limit of Pillow
};

// Where the images of an element are: u8 or f32, [height, width, channels] or [height, width].
struct ImageComponent {
  std::string name = "x";
  bool channels_first = false;  // [channels, height, width]
};

// Random changes of images, in this order, drawn for each image and epoch.
struct AugmentOptions {
  ImageComponent images = {};
  int64_t padding = 0;                      // zeros on each side, before cropping
  int64_t crop_height = 0, crop_width = 0;  // cut out anywhere; 0: the whole side
  bool flips = false;                       // left to right, every other image
  float brightness = 0;                     // u8: plus up to 255 times this; f32: plus up to this
  float contrast = 0;                       // the distance from a channel's mean times 1 - this to 1 + this
  uint64_t seed = 0;
};

struct ImageResize {
  ImageComponent images = {};
  int64_t height = 224, width = 224;
  ResizeMethod method = ResizeMethod::Bilinear;
};

struct CsvSyntax {
  char separator = ',';
  char quote = '"';
};

enum class CsvType : uint8_t {
  Float,     // f32
  Integer,   // i64
  Category,  // i64: the number of the text among all texts of the column, sorted
};

struct CsvColumn {
  std::string column;  // its name in the header, or its number from 0
  CsvType type = CsvType::Float;
  std::string field = {};  // columns of one field stand in one vector; empty: a field of its own, one number
};

struct CsvOptions {
  CsvSyntax syntax = {};
  bool has_header = true;
  // Empty: the label is the field "y", and all other columns are floats of the field "x".
  std::vector<CsvColumn> columns = {};
  std::string label = {};  // a column that is never empty or NaN; empty: none
  // The type of a label that `columns` does not name; unset: guessed from the first rows.
  std::optional<CsvType> label_type = std::nullopt;
  // Names of a label's categories by their numbers, such as Dataset::class_names of other data; empty: those that are
  // there, sorted. Another name is refused.
  std::vector<std::string> classes = {};
  std::optional<double> missing = std::nullopt;  // stands for empty fields of numbers; unset: they are refused
  std::string scratch_dir = {};                  // where .gz is unpacked; empty: a temporary directory on a disk
  Bytes index_bytes = MiB;                       // of the index of rows: where they begin
  Bytes longest_row = MiB;
  Bytes category_bytes = 4 * MiB;  // of the names of all categories
};

// One feature of the tf.Example records of a TFRecord file. Lists of floats give f32; lists of int64 give i64, i32, u8
// or bool; a bytes feature gives u8 of exactly its shape.
struct TfFeature {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape = {};
  std::optional<double> fallback = std::nullopt;     // every number of a feature that a record lacks
  bool is_label = false;                             // NaN is refused
  std::optional<ImageOptions> image = std::nullopt;  // the feature is an encoded image, which decides dtype and shape
};

}  // namespace plimsoll
