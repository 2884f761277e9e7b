// Cross-entropy of the logits x kernel, made a tile at a time, and its gradients.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>

#include <plimsoll/types.h>
#include "kernels/packed_weights.h"
#include "kernels/product.h"

namespace plimsoll::kernels {

// A tile of logits is 2 MiB and has many rows: kernel and dkernel are larger than any cache and are read once per tile
// row.
constexpr int64_t kTileRows = 256;
constexpr int64_t kTileCount = 512 * 1024;
constexpr int64_t kUnpackedCount = 512 * 1024;  // of a packed kernel: 2 MiB too

struct LossSizes {
  int64_t rows, width, classes;
  bool transposed;                           // kernel [classes, width] instead of [width, classes]
  double whole;                              // rows of the whole batch, which the mean divides by
  std::optional<PackedWeights> packed = {};  // what the kernel is kept as: transposed, and unpacked tile by tile
  int64_t tile_rows() const { return std::min(rows, kTileRows); }
  int64_t tile_classes() const { return std::min(classes, kTileCount / tile_rows()); }
  Bytes tile_bytes() const { return round_up(tile_rows() * tile_classes() * 4, kAlignment); }
  // Classes of a packed kernel that are unpacked at once. Products over whole stretches of the inner dimension, one
  // after another, have the bits of the product over all of it (kernels/product.h).
  int64_t unpacked_classes() const { return std::max<int64_t>(1, kUnpackedCount / width / kDepth) * kDepth; }
  Bytes unpacked_bytes() const {
    return packed ? round_up(std::min(tile_classes(), unpacked_classes()) * width * 4, kAlignment) : 0;
  }
  int64_t kernel_at(int64_t first_class) const { return transposed ? first_class * width : first_class; }
};

struct LossWork {
  bool gives_dx = false, gives_dkernel = false;
  bool holds_logits = false;  // of a few rows, until their gradients are computed
  bool adds = false;          // to what loss and dkernel hold
};

// Operands of the loss, of its gradient, or of both; null where there is no such operand.
struct LossOperands {
  const float* x;
  const void* kernel;  // floats, or packed
  const int32_t* labels;
  const float *known_sums = nullptr, *dloss = nullptr;
  float *loss = nullptr, *sums = nullptr, *dx = nullptr, *dkernel = nullptr;
};

class LinearLoss {
 public:
  LinearLoss(const LossSizes& sizes, const LossWork& work);
  ~LinearLoss();
  Bytes workspace_bytes() const;
  // The first row whose label is outside of the classes, and is left out; -1: none.
  int64_t find_bad(const int32_t* labels) const noexcept;
  int64_t classes() const;
  void run(const LossOperands& in, void* workspace) const noexcept;

 private:
  class Run;
  std::unique_ptr<const Run> run_;
};

}  // namespace plimsoll::kernels
