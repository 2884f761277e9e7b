// How a computation treats the samples of a batch: what decides whether a step may be run in parts.
#pragma once

#include <cstdint>

namespace plimsoll {

enum class BatchRule : uint8_t {
  Rows,   // sample i of each output depends on sample i of the inputs alone: split freely
  Sums,   // outputs without a batch dimension are sums over the samples: parts add into them; others are rows
  Mixes,  // samples influence each other: needs the whole batch at once
};

}  // namespace plimsoll
