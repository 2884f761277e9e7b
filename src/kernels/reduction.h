// Reductions of float tensors over any axes: how the elements lie, and the kernel.
#pragma once

#include <cmath>

#include "kernels/kernel.h"

namespace plimsoll::kernels {

// Some of the dimensions of x, as one index.
struct Walk {
  Dims sizes, strides;
  int64_t count = 1;
  void add(int64_t size, int64_t stride) {
    sizes.push_back(size);
    strides.push_back(stride);
    count *= size;
  }
  int64_t offset(int64_t index) const {
    int64_t at = 0;
    for (int i = sizes.rank() - 1; i > 0; --i) {
      at += index % sizes[i] * strides[i];
      index /= sizes[i];
    }
    return sizes.empty() ? 0 : at + index * strides[0];
  }
};

// x as kept and reduced dimensions around an innermost contiguous run, which is either kept or reduced.
struct Geometry {
  Walk kept, reduced;
  int64_t run = 1;
  bool run_is_kept = true;
  int64_t outputs() const { return kept.count * (run_is_kept ? run : 1); }
};

Geometry geometry_of(const Dims& dims, const Dims& axes);

enum class Reduce : uint8_t { Sum, Max, Min };

// One NaN makes the largest and the smallest of all NaN, wherever it is.
template <class T>
T larger(T a, T b) {
  return b > a || std::isnan(b) ? b : a;
}
template <class T>
T smaller(T a, T b) {
  return b < a || std::isnan(b) ? b : a;
}

// Splits a reduction into pieces whose partial results meet in workspace, in order. The pieces depend on the
// sizes alone; sums are made of blocks in f32 that are added up in f64.
class Reduction {
 public:
  // y = factor x reduce(x), or y += that.
  Reduction(Reduce how, const Geometry& geometry, double factor, bool accumulate);
  Bytes workspace_bytes() const { return pieces_ == 1 ? 0 : pieces_ * g_.outputs() * Bytes{sizeof(double)}; }
  void run(const float* x, float* y, void* workspace) const;

 private:
  void finish(float* y, double value) const;
  void reduce_runs(const float* x, float* y, double* partial, int64_t first, int64_t last, int64_t piece) const;
  void reduce_tile(const float* x, float* y, double* partial, int64_t kept, int64_t tile, int64_t piece) const;

  Reduce how_;
  Geometry g_;
  double factor_;
  bool accumulate_;
  int64_t items_ = 1;     // runs or rows that are reduced
  int64_t per_span_ = 1;  // of them in one contiguous span
  int64_t width_ = 1;     // rows: elements of one, a multiple of the innermost run
  int64_t span_ = 1;      // rows: contiguous elements that are cut into rows
  Walk spans_;            // rows: where the spans start
  int64_t pieces_ = 1;
};

}  // namespace plimsoll::kernels
