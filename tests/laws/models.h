// The models that the tests of this folder train, small enough for a test, with synthetic samples.
#pragma once

#include <cstring>
#include <ostream>
#include <random>
#include <vector>

#include <plimsoll/model.h>

namespace plimsoll::testing {

struct Case {
  const char* name;
  const char* model;
  ModelOptions options;
  int64_t batch;
};

inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

inline ModelOptions small(std::optional<int64_t> image, std::optional<int64_t> classes,
                          std::optional<int64_t> sequence = {}, std::optional<int64_t> layers = {},
                          std::optional<double> dropout = {}) {
  ModelOptions o;
  o.image_size = image;
  o.classes = classes;
  o.sequence = sequence;
  o.layers = layers;
  o.dropout = dropout;
  return o;
}

// Reals in [0, 1), or whole numbers below the number of classes.
inline std::vector<std::byte> random_values(const TensorType& type, int64_t batch, int64_t classes) {
  std::mt19937 random(7);
  const int64_t count = element_count(type.shape).at(batch);
  std::vector<std::byte> bytes(static_cast<size_t>(count * size_of(type.dtype)));
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t drawn = random();
    const float real = static_cast<float>(drawn % 1000) / 1000;
    const auto whole = static_cast<int32_t>(drawn % static_cast<uint64_t>(classes));
    std::memcpy(bytes.data() + i * 4, type.dtype == DType::F32 ? static_cast<const void*>(&real) : &whole, 4);
  }
  return bytes;
}

}  // namespace plimsoll::testing
