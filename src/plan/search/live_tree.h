// Bytes alive over time: added over a stretch, and the highest of any stretch, both in logarithmic time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <plimsoll/types.h>

namespace plimsoll::plan {

class LiveTree {
 public:
  explicit LiveTree(int32_t count) {
    while (width_ < count) width_ *= 2;
    highest_.assign(2 * static_cast<size_t>(width_), 0);
    whole_.assign(static_cast<size_t>(width_), 0);
  }

  // Both ends included; nothing when the stretch is empty.
  void add(int32_t first, int32_t last, Bytes bytes) {
    if (first > last || bytes == 0) return;
    int32_t left = first + width_, right = last + width_ + 1;
    for (; left < right; left /= 2, right /= 2) {
      if (left % 2 == 1) raise(left++, bytes);
      if (right % 2 == 1) raise(--right, bytes);
    }
    rebuild(first + width_);
    rebuild(last + width_);
  }

  // Maxima up to the common parent, plus its ancestors' pending sums.
  Bytes highest(int32_t first, int32_t last) const {
    if (first > last) return kNothing;
    int32_t left = first + width_, right = last + width_;
    Bytes in_left = highest_[left], in_right = highest_[right];
    while (left / 2 != right / 2) {
      if (left % 2 == 0) in_left = std::max(in_left, highest_[left + 1]);
      if (right % 2 == 1) in_right = std::max(in_right, highest_[right - 1]);
      left /= 2;
      right /= 2;
      in_left += whole_[left];
      in_right += whole_[right];
    }
    Bytes found = std::max(in_left, in_right);
    for (left /= 2; left >= 1; left /= 2) found += whole_[left];
    return found;
  }
  Bytes highest() const { return highest_[1]; }

  // The first place that is as high as the highest.
  int32_t find_highest() const {
    int32_t node = 1;
    while (node < width_) node = highest_[2 * node] >= highest_[2 * node + 1] ? 2 * node : 2 * node + 1;
    return node - width_;
  }

  std::vector<Bytes> values(int32_t count) const {
    std::vector<Bytes> above(highest_.size(), 0);
    for (int32_t node = 2; node < 2 * width_; ++node) above[node] = above[node / 2] + whole_[node / 2];
    std::vector<Bytes> values(static_cast<size_t>(count));
    for (int32_t i = 0; i < count; ++i) values[i] = highest_[i + width_] + above[i + width_];
    return values;
  }

  static constexpr Bytes kNothing = std::numeric_limits<Bytes>::min() / 4;

 private:
  void raise(int32_t node, Bytes bytes) {
    highest_[node] += bytes;
    if (node < width_) whole_[node] += bytes;
  }
  void rebuild(int32_t node) {
    for (node /= 2; node >= 1; node /= 2)
      highest_[node] = std::max(highest_[2 * node], highest_[2 * node + 1]) + whole_[node];
  }

  int32_t width_ = 1;
  std::vector<Bytes> highest_;  // of all below the node, without what was added to nodes above
  std::vector<Bytes> whole_;    // added to all below the node
};

}  // namespace plimsoll::plan
