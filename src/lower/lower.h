// From a graph to a program: fuse, choose kernels, fix layouts, make every reorder an explicit task.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "lower/kernels.h"
#include "lower/predict.h"
#include "lower/program.h"

namespace plimsoll {

struct LowerOptions {
  int64_t batch = 1;
  MachineSpeed speed;
  bool fuse = true;
};

// The layout of each variable, shared by all programs of a session. A variable that is missing is open: the first
// kernel that meets it decides.
using VariableLayouts = std::unordered_map<ValueId, Layout>;

// `layouts` gains what this program decided.
Program lower(const Graph& graph, std::span<const ValueId> fetches, std::span<const NodeId> updates,
              const LowerOptions& options, VariableLayouts& layouts, KernelStore& kernels);

}  // namespace plimsoll
