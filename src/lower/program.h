// One step with everything decided but the places: a Problem for the planner, and beside each task its kernel.
#pragma once

#include <memory>
#include <vector>

#include "graph/body.h"
#include "kernels/kernel.h"
#include "plan/plan.h"
#include "plan/problem.h"

namespace plimsoll::lower {

// Where an argument of a kernel stands in its task's lists.
struct Operand {
  enum class List : uint8_t { Reads, Updates, Writes };
  List list;
  int32_t index;
  Bytes offset = 0;  // a tile works on a stretch of the buffer
};

// What runs, and what one run costs at the samples of a part. With parts, others follow where they differ from the
// first: later ones add into sums, and the last part may be smaller.
struct Kernels {
  std::shared_ptr<kernels::Kernel> first;
  graph::Cost cost{};
  std::vector<Operand> in = {};  // its arguments, in the lists of its own work
  std::shared_ptr<kernels::Kernel> later = nullptr, last = nullptr;
};

struct ProgramTask {
  Kernels own;
  NodeId origin;                  // -1: a reorder
  const graph::Op* op = nullptr;  // what runs, which fusing may have changed from what `origin` says; null: a reorder
  Kernels slim{};                 // the task's only variant, where it has one
  const Kernels& of(const plan::Action& step) const { return step.variant < 0 ? own : slim; }
};

// A value that crosses the border of the step, and the buffer that holds it.
struct Port {
  ValueId value;
  plan::BufferId buffer;
  kernels::ConcreteType type;
  int32_t tiles = 1;  // a large variable takes so many buffers, one after another
};

struct Program {
  int64_t batch = 0;
  int64_t part_samples = 0;        // 0: whole
  int32_t half_values = 0;         // so many values are rounded to 16 bits, as asked
  plan::Problem problem;           // problem.tasks[i] is tasks[i]
  std::vector<ProgramTask> tasks;  // outputs of a kernel are its task's writes, in order
  std::vector<Port> variables;     // the same first buffers in every program of a session
  std::vector<Port> constants;     // part of the arena like variables
  std::vector<Port> feeds;         // placeholders, row-major
  std::vector<Port> fetches;       // row-major, in the order asked for
};

}  // namespace plimsoll::lower
