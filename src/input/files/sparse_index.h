// Where every k-th element of a file starts, in bounded memory: k doubles whenever the index is full.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <plimsoll/types.h>

namespace plimsoll::input {

class SparseIndex {
 public:
  static constexpr Bytes kBytes = MiB;

  explicit SparseIndex(Bytes most_bytes = kBytes) : capacity_(static_cast<size_t>(most_bytes) / sizeof(Bytes)) {
    assert(capacity_ >= 2);
    offsets_.reserve(capacity_);  // only addresses: pages are taken when they are written
  }

  // Elements are added in order.
  void add(Bytes offset) {
    if (count_ % stride_ == 0) {
      if (offsets_.size() == capacity_) thin();
      if (count_ % stride_ == 0) offsets_.push_back(offset);
    }
    ++count_;
  }

  struct Entry {
    int64_t element = 0;
    Bytes offset = 0;
  };
  // The last entry at or before an element.
  Entry before(int64_t element) const {
    assert(element >= 0 && element < count_);
    return {element / stride_ * stride_, offsets_[static_cast<size_t>(element / stride_)]};
  }

  int64_t count() const { return count_; }
  int64_t stride() const { return stride_; }
  Bytes bytes() const { return static_cast<Bytes>(capacity_ * sizeof(Bytes)); }

 private:
  void thin() {
    for (size_t i = 0; 2 * i < offsets_.size(); ++i) offsets_[i] = offsets_[2 * i];
    offsets_.resize((offsets_.size() + 1) / 2);
    stride_ *= 2;
  }

  const size_t capacity_;
  std::vector<Bytes> offsets_;
  int64_t count_ = 0;
  int64_t stride_ = 1;
};

}  // namespace plimsoll::input
