// Copies a box of elements from one set of strides to another: the kernel of every operator that only moves data.
#pragma once

#include <array>
#include <cstdint>

#include <plimsoll/tensor.h>

namespace plimsoll::kernels {

class StridedCopy {
 public:
  explicit StridedCopy(Bytes element_bytes) : element_bytes_(element_bytes) {}

  // Dimensions in any order; strides in elements, a stride of 0 in `from` repeats.
  void add(int64_t size, int64_t from, int64_t to);
  // Where the box starts, in elements.
  void start_at(int64_t from, int64_t to) { from_start_ = from, to_start_ = to; }
  // Call once, after the last add(): merges dimensions and chooses the way to copy.
  void finish();
  void run(const void* from, void* to) const;

 private:
  struct Dimension {
    int64_t size, from, to;
  };
  enum class Way : uint8_t { Runs, Fill, Transpose, Elements };
  class Position;
  void widen();
  template <class T>
  void run_as(const T* from, T* to) const;
  void copy_bytes(const std::byte* from, std::byte* to) const;
  template <class T>
  void transpose(const T* from, T* to) const;
  template <class T>
  void copy_elements(const T* from, T* to) const;

  Bytes element_bytes_;
  int64_t from_start_ = 0, to_start_ = 0;
  // After finish(): outermost in `to` first, without the inner ones.
  std::array<Dimension, size_t{2} * kMaxRank> dims_{};
  int rank_ = 0;
  int64_t outer_count_ = 1;
  Dimension inner_{1, 1, 1};   // consecutive in `to`
  Dimension across_{1, 1, 1};  // Transpose: consecutive in `from`
  Way way_ = Way::Runs;
};

// Row-major strides.
Dims strides_of(const Dims& dims);

}  // namespace plimsoll::kernels
