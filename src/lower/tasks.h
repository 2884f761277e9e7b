// From the nodes of a draft to tasks: operands found or reordered, results given buffers, times predicted.
#pragma once

#include <vector>

#include "lower/lower.h"
#include "lower/node_kernels.h"
#include "lower/value_buffers.h"

namespace plimsoll::lower {

// Adds tasks and fetches to the program.
class TaskBuilder {
 public:
  TaskBuilder(const Draft& draft, const LowerOptions& options, const BatchSizes& sizes, ValueBuffers& buffers,
              KernelChooser& chooser, Program& program);

  // Nodes are added in program order. A view makes no task, an update of a tiled variable makes one a tile.
  void add(const DraftNode& node);
  void add_fetch(ValueId value);

 private:
  // Whether the node runs once after all micro-batches, on the rows that they collected.
  bool runs_after_micro_batches(const DraftNode& node) const {
    return sizes_.in_micro_batches() && options_.waits[static_cast<size_t>(node.origin)];
  }
  bool is_batched(const DraftNode& node) const;
  plan::BufferId in_layout(ValueId value, const kernels::Layout& layout);
  void add_view(const DraftNode& node);
  void add_single(const DraftNode& node, const std::vector<kernels::ConcreteType>& in);
  void add_tiles(const DraftNode& node, std::vector<kernels::ConcreteType> types);
  void add_variant(const DraftNode& node, ChosenKernels slim, plan::Task& task, ProgramTask& work) const;
  void add_sharing(const DraftNode& node, plan::Task& task, const ProgramTask& work) const;
  void forget_copies(const DraftNode& node);
  void set_time(plan::Task& task, const graph::Cost& cost, const graph::Cost& fewer_cost, int64_t fewer) const;
  void set_exchange(plan::Task& task, const DraftNode& node, const ProgramTask& work,
                    std::span<const kernels::ConcreteType> in) const;
  graph::Cost cost_of_sample(const DraftNode& node) const;
  void add_task(plan::Task task, ProgramTask work, Bytes workspace_bytes);

  const Draft& draft_;
  const LowerOptions& options_;
  const BatchSizes& sizes_;
  ValueBuffers& buffers_;
  KernelChooser& chooser_;
  Program& program_;
};

}  // namespace plimsoll::lower
