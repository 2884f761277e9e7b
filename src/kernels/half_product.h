// One matrix product in bf16, c = activation(a b + bias) or c += a b: operands are rounded to bf16 while they are
// packed, sums are f32. Only for processors that multiply bf16. As with Product, nothing is allocated and the sums run
// in the same order for any number of threads.
#pragma once

#include <plimsoll/types.h>
#include "graph/attrs.h"
#include "kernels/product.h"

namespace plimsoll::kernels {

// Whether the processor multiplies bf16 and oneDNN is allowed to use that (ONEDNN_MAX_CPU_ISA).
bool multiplies_bf16();
// Whether lowering asked for bf16.
inline bool computes_in_bf16(const graph::Attrs& attrs) { return attrs.s("compute") == "bf16"; }

// How much faster products in bf16 count than those in f32. Convolutions gain more than this, matrix products about as
// much: `plimsoll profile resnet18 --policy mixed_bfloat16` beside `--policy stored_bfloat16`, the same of bert-base.
constexpr double kHalfSpeedup = 1.7;

// An operand in memory: f32 or bf16.
struct HalfOperand {
  MatrixOrder order;
  DType dtype;
};

class HalfProduct {
 public:
  // The columns of c are consecutive; its rows are `c_stride` apart.
  HalfProduct(const HalfOperand& a, const HalfOperand& b, int64_t c_stride, bool accumulate, Activation activation);
  Bytes workspace_bytes() const;
  // `bias` may be null.
  void run(const void* a, const void* b, const float* bias, float* c, void* workspace) const noexcept;

 private:
  struct Operands {
    const void *a, *b;
    const float* bias;
    float* c;
  };
  void run_chunk(const Operands& in, int64_t row, int64_t column, std::byte* packed) const noexcept;
  Bytes slot_bytes() const;  // workspace of one thread
  Bytes packed_b_bytes() const;

  HalfOperand a_, b_;
  int64_t c_stride_;
  bool accumulate_;
  Activation activation_;
  int slots_;  // threads
  int64_t chunk_rows_, chunk_columns_;
};

}  // namespace plimsoll::kernels
