// Policy: in what type values are kept and products computed. Weights, gradients and the optimiser are f32 under every
// policy.
#pragma once

#include <string_view>

#include <plimsoll/dtype.h>

namespace plimsoll {

struct Policy {
  // Of values that the backward pass reads again, between their uses: results differ from f32, though they are the same
  // under every line.
  DType values = DType::F32;
  // With bf16, training steps also compute products (matmul, convolutions, their gradients) on bf16 operands with f32
  // sums, where the processor multiplies bf16 and that is faster; all other kernels compute in f32. f16 is storage
  // alone: oneDNN has no such kernels.
  bool half_products = true;
  // f16 needs loss scaling (Optimiser::scales_loss), which training then switches on: its range is small.
  bool scales_loss() const { return values == DType::F16; }

  static Policy float32() { return {}; }
  static Policy mixed_float16() { return {DType::F16}; }
  static Policy mixed_bfloat16() { return {DType::BF16}; }
  // Storage alone: products in f32 on every processor.
  static Policy stored_bfloat16() { return {DType::BF16, false}; }
  // "float32", "mixed_float16", "mixed_bfloat16", "stored_bfloat16"; throws Error for another name.
  static Policy named(std::string_view name);
  std::string_view name() const;

  friend bool operator==(const Policy&, const Policy&) = default;
};

}  // namespace plimsoll
