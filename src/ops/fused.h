// A chain of element-wise operators as one node: one pass over memory, no intermediate value is stored.
#pragma once

#include <span>
#include <vector>

#include "ops/ops.h"

namespace plimsoll::ops {

// Registers are numbered: first the inputs of the fused node, then the results of the steps in order.
struct FusedStep {
  const Op* op;  // must have a tile
  Attrs attrs;
  std::vector<int> in;  // registers
};

// The most inputs and steps of one node; longer chains have to be cut.
constexpr int kMaxFusedInputs = 12;
constexpr int kMaxFusedSteps = 16;

// `outputs` are registers that steps write; all must have the same shape, that of everything broadcast together.
Outputs fused(std::span<const Tensor> inputs, const std::vector<FusedStep>& steps, const std::vector<int>& outputs,
              std::string_view name = {});

// The settings of a fused node, for rewrites that make one themselves; and the program that such settings describe.
Attrs fused_attrs(const std::vector<FusedStep>& steps, const std::vector<int>& outputs);
std::vector<FusedStep> fused_steps(const Attrs& attrs);

}  // namespace plimsoll::ops
