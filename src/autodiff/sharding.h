// What ranks that train together share of weights, gradients and optimiser state: each then holds a slice.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <plimsoll/optimiser.h>

namespace plimsoll::autodiff {

// Each kind shares what those before it do, too.
enum class Sharding { None, State, Gradients, Weights };

// "none", "state", "gradients", "weights".
std::string_view name_of(Sharding sharding);
Sharding parse_sharding(std::string_view name);  // throws Error(Usage)

// Tensors of fewer elements are whole on every rank: their slices would take more messages than they save bytes.
constexpr int64_t kLeastShared = 1024;

struct SharedTensors {
  Sharding sharding = Sharding::None;
  int64_t ranks = 1;
  // Whether ranks share this much of a tensor of that shape.
  bool has(Sharding kind, const Shape& shape) const;
};

// A variable of which this rank holds a slice, row-major.
struct SharedVariable {
  Tensor slice;
  Shape whole;
};

// Throws Error(Usage) for an optimiser whose state can't be cut into slices.
void expect_shareable(const Optimiser& optimiser, const SharedTensors& shared);

}  // namespace plimsoll::autodiff
