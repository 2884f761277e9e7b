// From a graph to a program: fuse, choose kernels, fix layouts, make every reorder an explicit task.
#pragma once

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
  int64_t part_samples = 0;      // the step runs in parts of so many; 0: whole
  std::vector<bool> waits = {};  // with parts, by node: runs once after all of them, on their collected rows
  bool gives_feeds = false;      // placeholders stay where the caller has them
  MachineSpeed speed;
  bool fuse = true;
  bool masks = true;         // for the backward part, bits of what it needs only the sign of
  bool half_values = false;  // what the backward pass reads again is kept in 16 bits: other results
};

// The layout of each variable, shared by all programs of a session. A variable that is missing is open: the first
// kernel that meets it decides.
using VariableLayouts = std::unordered_map<ValueId, kernels::Layout>;

// `layouts` gains what this program decided. Without value when the step can't be cut so: a kernel wants another layout
// for the smaller last part, or needs all rows in a layout that is not row-major.
std::optional<Program> lower_in_parts(const graph::Body& graph, std::span<const ValueId> fetches,
                                      std::span<const NodeId> updates, const LowerOptions& options,
                                      VariableLayouts& layouts, KernelStore& kernels);
// The whole batch at once.
Program lower(const graph::Body& graph, std::span<const ValueId> fetches, std::span<const NodeId> updates,
              const LowerOptions& options, VariableLayouts& layouts, KernelStore& kernels);

}  // namespace plimsoll::lower
