// Points of the plane in three classes by the angle.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include <plimsoll/dataset.h>

namespace plimsoll::testing {

struct Circle {
  explicit Circle(int64_t count) : samples(count) {
    for (int64_t i = 0; i < count; ++i) {
      const double angle = std::fmod(static_cast<double>(i) * 2.399963, 6.2831853);
      x.push_back(static_cast<float>(std::cos(angle)));
      x.push_back(static_cast<float>(std::sin(angle)));
      y.push_back(static_cast<int32_t>(angle / 2.0943952));
    }
  }
  Dataset dataset() const { return Dataset::slices({{"x", x, {samples, 2}}, {"y", y}}); }
  int64_t samples;
  std::vector<float> x;
  std::vector<int32_t> y;
};

}  // namespace plimsoll::testing
