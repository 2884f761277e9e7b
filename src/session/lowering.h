// The steps of a session as programs: one set of kernels and of variable layouts for all of them.
#pragma once

#include <vector>

#include <plimsoll/memory_line.h>
#include "lower/lower.h"
#include "session/engine_options.h"
#include "session/request.h"

namespace plimsoll::session {

class StepLowering {
 public:
  StepLowering(const graph::Body& graph, const EngineOptions& options, const MemoryLine& line)
      : graph_(graph), options_(options), line_(line), kernels_([this] { drop_code(); }) {}

  // The whole batch at once. Throws Error for a request that makes no sense.
  void lower(PlannedStep& step, const Request& request);
  // The step in micro-batches of several sizes; `whole` is the same step at once.
  std::vector<lower::Program> lower_splits(const Request& request, const lower::Program& whole);
  // Whether the programs of all sizes may exist together while planning is allowed so many bytes.
  bool has_room_for_splits(const PlannedStep& step, Bytes search_bytes) const;
  // What the programs of all ways to set up the step take.
  Bytes bytes_of_problems(const PlannedStep& step) const;
  // All ways to set up the step: the whole first, then micro-batches. Kernels made for it are dropped.
  std::vector<plan::Problem> list_problems(const PlannedStep& step);

  // Variables that no kernel has chosen a layout for become row-major: a later step must not change layouts.
  void close_layouts();
  void drop_unused_kernels() { kernels_.drop_unused(); }
  void release() { kernels_ = lower::KernelStore(); }

 private:
  lower::LowerOptions options_for(const Request& request) const;
  // Drops code pages that kernel creation used: they are not needed for a while.
  void drop_code() const;
  std::vector<int64_t> split_sizes(const Request& request, const lower::Program& whole) const;

  const graph::Body& graph_;
  const EngineOptions& options_;
  const MemoryLine line_;
  lower::KernelStore kernels_;
  lower::VariableLayouts layouts_;
};

}  // namespace plimsoll::session
