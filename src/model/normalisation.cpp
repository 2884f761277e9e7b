#include "model/normalisation.h"

#include <cmath>

#include <fmt/format.h>

namespace plimsoll::model {

std::string normalisation_fault(const std::vector<float>& mean, const std::vector<float>& deviation) {
  for (const float number : mean)
    if (!std::isfinite(number)) return fmt::format("a mean of {} is not finite", number);
  for (const float number : deviation) {
    if (number <= 0) return "a deviation is not above 0";
    if (!std::isfinite(number)) return fmt::format("a deviation of {} is not finite", number);
    if (!std::isfinite(1 / number)) return fmt::format("a deviation of {} is too small", number);
  }
  return "";
}

}  // namespace plimsoll::model
