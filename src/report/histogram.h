// The distribution of the numbers of a tensor.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace plimsoll::report {

// Buckets of equal width between the smallest and the largest number, made in two passes over the numbers.
// What is not finite is left out.
class Histogram {
 public:
  static constexpr size_t kBuckets = 30;  // as tf.summary.histogram

  void widen(std::span<const float> numbers);  // the first pass, over all numbers
  void count(std::span<const float> numbers);  // the second, over the same

  double smallest() const { return smallest_; }
  double largest() const { return largest_; }
  double sum() const { return sum_; }
  double sum_of_squares() const { return sum_of_squares_; }
  double numbers() const { return numbers_; }
  double bucket(size_t i) const { return buckets_[i]; }
  double limit(size_t i) const;  // the upper end of a bucket

 private:
  double smallest_ = 0, largest_ = 0, sum_ = 0, sum_of_squares_ = 0, numbers_ = 0;
  std::array<double, kBuckets> buckets_ = {};
};
Histogram make_histogram(std::span<const float> numbers);

}  // namespace plimsoll::report
