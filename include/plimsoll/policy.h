// Policy: in what type values are kept. Weights, gradients and the optimiser are f32 under every policy.
#pragma once

#include <string_view>

#include <plimsoll/dtype.h>

namespace plimsoll {

struct Policy {
  // Of values that the backward pass reads again, between their uses: results differ from f32, though they are the same
  // under every line. Kernels compute in f32.
  DType values = DType::F32;
  // f16 needs loss scaling (Optimiser::scales_loss), which training then switches on: its range is small.
  bool scales_loss() const { return values == DType::F16; }

  static Policy float32() { return {}; }
  static Policy mixed_float16() { return {DType::F16}; }
  static Policy mixed_bfloat16() { return {DType::BF16}; }
  // "float32", "mixed_float16", "mixed_bfloat16"; throws Error for another name.
  static Policy named(std::string_view name);
  std::string_view name() const;

  friend bool operator==(const Policy&, const Policy&) = default;
};

}  // namespace plimsoll
