// Tensors that ranks share: each holds a slice of them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <plimsoll/optimiser.h>
#include "base/sharding.h"

namespace plimsoll::autodiff {

// Tensors of fewer elements are whole on every rank: their slices would take more messages than they save bytes.
constexpr int64_t kLeastShared = 1024;

// A weight of which each rank holds a slice, and the values that the passes of a step gathered from all slices.
struct SharedWeight {
  Tensor slice;
  Shape whole;
  std::vector<Tensor> gathered;
};
struct SharedWeights {
  std::vector<SharedWeight> all;
};

// The buffer of all exchanges of a step, where the model itself has some. in() declares it with the first of them.
struct ExchangeBuffer {
  int64_t elements = 0;
  Tensor turn = {};
  Tensor in(Graph& graph);
};

struct SharedTensors {
  Sharding sharding = Sharding::None;
  int64_t ranks = 1;
  std::shared_ptr<SharedWeights> weights = {};  // null: each rank has them whole
  std::shared_ptr<ExchangeBuffer> buffer = {};  // null: the model exchanges nothing
  bool synchronises_norms = false;              // batch norms use the statistics of all ranks
  // Whether ranks share, at this level, a tensor of that shape.
  bool has(Sharding kind, const Shape& shape) const;
  // Null: the weight is whole here.
  const SharedWeight* find(Tensor weight) const;
  // The shape of the whole weight.
  Shape shape_of(Tensor weight) const;
};

// A variable of which this rank holds a slice, row-major.
struct SharedVariable {
  Tensor slice;
  Shape whole;
};

// Throws Error(Usage) for an optimiser whose state can't be cut into slices.
void expect_shareable(const Optimiser& optimiser, const SharedTensors& shared);

}  // namespace plimsoll::autodiff
