// How a computation treats the samples of a batch: decides whether a step may run in micro-batches.
#pragma once

#include <cstdint>

namespace plimsoll {

enum class BatchRule : uint8_t {
  Rows,   // sample i of each output depends on sample i of the inputs alone: split freely
  Sums,   // outputs without a batch dimension are sums over the samples, which micro-batches add to; others are rows
  Mixes,  // samples influence each other: needs the whole batch at once
};

}  // namespace plimsoll
