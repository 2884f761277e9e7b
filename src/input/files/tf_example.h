// Reads the features of a serialized tf.Example into memory that the caller gives, without a copy in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "input/files/table.h"

namespace plimsoll::input {

// One feature that a reader wants. Lists of floats give f32; lists of int64 give i64, i32, u8 or bool; a bytes feature
// gives u8 of exactly its shape, or where `is_encoded` says so the bytes themselves.
struct Feature {
  TableField field;                               // its name is the feature's
  std::optional<double> fallback = std::nullopt;  // every number of a feature that a record lacks
  bool is_encoded = false;
  bool refuses_nan = false;  // for labels
  int64_t classes = 0;       // that labels of whole numbers stand for; 0: any
};

// Where a feature goes: its numbers, or for encoded features the place of its bytes within the record.
struct FeatureTarget {
  std::byte* numbers = nullptr;
  std::span<const std::byte> encoded = {};
};

// For one thread.
class ExampleParser {
 public:
  // Throws Error(Usage) for features that cannot be.
  explicit ExampleParser(std::vector<Feature> features);

  // Empty when all is well, else what is wrong and in which feature: the caller knows the file and the record.
  [[nodiscard]] std::string parse(std::span<const std::byte> record, std::span<FeatureTarget> into);

  const std::vector<Feature>& features() const { return features_; }

 private:
  size_t find(std::string_view name);

  const std::vector<Feature> features_;
  std::vector<bool> is_found_;
  size_t guess_ = 0;  // the feature that comes next if this record has the order of the one before
};

// What the features of a record are, to find out what a file holds.
struct FoundFeature {
  enum class Kind : uint8_t { Bytes, Floats, Integers, Empty };
  std::string name;
  Kind kind = Kind::Empty;
  int64_t values = 0;
  Bytes bytes = 0;  // of the first value of a bytes feature
  bool is_image = false;
};
// Sorted by name. Throws Error(BadData) when the record is no tf.Example.
std::vector<FoundFeature> list_features(std::span<const std::byte> record, const std::string& place);

}  // namespace plimsoll::input
