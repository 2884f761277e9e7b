// From a graph to a program: fuse, choose kernels, fix layouts, make every reorder an explicit task.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "lower/kernels.h"
#include "lower/predict.h"
#include "lower/program.h"

namespace plimsoll::lower {

struct LowerOptions {
  int64_t batch = 1;
  int64_t micro_batch = 0;       // samples of a micro-batch; 0: the step runs on the whole batch
  std::vector<bool> waits = {};  // by node: runs once after all micro-batches, on the rows that they collected
  bool gives_feeds = false;      // placeholders stay where the caller has them
  // Variables and constants stay there too, row-major, and fetched values are written where the caller wants them:
  // these must not share bytes with each other or with a placeholder, variable or constant.
  bool gives_all = false;
  MachineSpeed speed;
  std::function<double(double bytes)> exchange_ns = {};  // time of a sum over all ranks; empty: it takes none
  bool fuse = true;
  bool masks = true;          // the backward pass reads one bit an element where it needs no more
  DType values = DType::F32;  // of values that the backward pass reads, between uses; 16 bits are lossy
  DType frozen = DType::F32;  // of weights that no node updates; bf16 and i8 are lossy
  // Steps with values in bf16 also compute products in bf16, where that is faster. Only for processors that multiply
  // bf16 (kernels::multiplies_bf16).
  bool half_products = false;
};

// The layout of each variable, shared by all programs of a session. The first kernel that uses a variable decides its
// layout; until then the variable is missing here.
using VariableLayouts = std::unordered_map<ValueId, kernels::Layout>;

// `layouts` gains what this program decided. Without value when the step can't run in such micro-batches: a kernel
// wants another layout for the smaller last one, a view moves the batch, or samples are not outermost where they must
// be.
std::optional<Program> lower_in_micro_batches(const graph::Body& graph, std::span<const ValueId> fetches,
                                              std::span<const NodeId> updates, const LowerOptions& options,
                                              VariableLayouts& layouts, KernelStore& kernels);
// On the whole batch.
Program lower(const graph::Body& graph, std::span<const ValueId> fetches, std::span<const NodeId> updates,
              const LowerOptions& options, VariableLayouts& layouts, KernelStore& kernels);

}  // namespace plimsoll::lower
