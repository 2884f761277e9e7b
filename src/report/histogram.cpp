#include "report/histogram.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::report {

void Histogram::widen(std::span<const float> numbers) {
  for (const float number : numbers) {
    if (!std::isfinite(number)) continue;
    const auto value = static_cast<double>(number);
    smallest_ = numbers_ > 0 ? std::min(smallest_, value) : value;
    largest_ = numbers_ > 0 ? std::max(largest_, value) : value;
    sum_ += value;
    sum_of_squares_ += value * value;
    ++numbers_;
  }
}

void Histogram::count(std::span<const float> numbers) {
  const double width = largest_ - smallest_;
  for (const float number : numbers) {
    if (!std::isfinite(number)) continue;
    const double share = width > 0 ? (static_cast<double>(number) - smallest_) / width : 0;
    ++buckets_[std::min(static_cast<size_t>(share * kBuckets), kBuckets - 1)];
  }
}

double Histogram::limit(size_t i) const {
  if (i + 1 == kBuckets) return largest_;
  return smallest_ + (largest_ - smallest_) * static_cast<double>(i + 1) / kBuckets;
}

Histogram make_histogram(std::span<const float> numbers) {
  Histogram histogram;
  histogram.widen(numbers);
  histogram.count(numbers);
  return histogram;
}

}  // namespace plimsoll::report
