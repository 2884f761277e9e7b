// One lowered step: a Problem for the planner, and beside each task its kernels. Only offsets are left to decide.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "graph/body.h"
#include "kernels/kernel.h"
#include "kernels/packed_weights.h"
#include "plan/plan.h"
#include "plan/problem.h"

namespace plimsoll::lower {

// Where an argument of a kernel stands in its task's lists.
struct KernelOperand {
  enum class List : uint8_t { Reads, Updates, Writes };
  List list;
  int32_t index;
  Bytes offset = 0;  // into the buffer, where a tile reads a range of it
};

// The kernels of a task. In micro-batches, `later` adds into the sums of those before, and `last` is for a smaller last
// micro-batch; null where `first` serves.
struct Kernels {
  std::shared_ptr<kernels::Kernel> first;
  graph::Cost cost{};                  // of one run of `first`
  std::vector<KernelOperand> in = {};  // arguments of every kernel here
  std::shared_ptr<kernels::Kernel> later = nullptr, last = nullptr;
};

struct ProgramTask {
  Kernels own;
  NodeId origin;                  // -1: a reorder
  const graph::Op* op = nullptr;  // after fusing, which may replace that of `origin`; null: a reorder
  Kernels slim{};                 // the task's only variant, where it has one
  bool is_half = false;           // computed in bf16
  const Kernels& of(const plan::Action& step) const { return step.variant < 0 ? own : slim; }
};

// A value that the step takes or gives, and the buffer that holds it.
struct Port {
  ValueId value;
  plan::BufferId buffer;
  kernels::ConcreteType type;
  int32_t tiles = 1;                                  // a large variable takes so many buffers, one after another
  std::optional<kernels::PackedWeights> packed = {};  // a variable that is kept so; `type` is then that of its bytes
};

struct Program {
  int64_t batch = 0;
  int64_t micro_batch = 0;          // samples of a micro-batch; 0: the whole batch at once
  int32_t half_values = 0;          // number of values that are kept in 16 bits
  Bytes half_value_bytes = 0;       // that they take so, over the whole batch; in f32 it is twice as much
  int32_t products = 0;             // tasks of operators that know bf16
  int32_t half_products = 0;        // those that are computed in bf16
  plan::Problem problem;            // problem.tasks[i] is tasks[i]
  std::vector<DType> buffer_types;  // of the elements of problem.buffers
  std::vector<ProgramTask> tasks;   // outputs of a kernel are its task's writes, in order
  std::vector<Port> variables;      // the same first buffers in every program of a session
  std::vector<Port> constants;      // part of the arena like variables
  std::vector<Port> feeds;          // placeholders, row-major
  std::vector<Port> fetches;        // row-major, in the order asked for
};

}  // namespace plimsoll::lower
