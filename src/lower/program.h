// One step with everything decided but the places: a Problem for the planner, and beside each task its kernel.
#pragma once

#include <memory>
#include <vector>

#include "graph/graph.h"
#include "ops/kernel.h"
#include "plan/problem.h"

namespace plimsoll {

// Where an argument of a kernel stands in its task's lists.
struct Operand {
  enum class List : uint8_t { Reads, Updates, Writes };
  List list;
  int32_t index;
};

struct ProgramTask {
  std::shared_ptr<Kernel> kernel;
  NodeId origin;  // -1: a reorder
  std::vector<Operand> in;
  Cost cost;               // at the program's batch
  const Op* op = nullptr;  // what runs, which fusing may have changed from what `origin` says; null: a reorder
};

// A value that crosses the border of the step, and the buffer that holds it.
struct Port {
  ValueId value;
  BufferId buffer;
  ConcreteType type;
};

struct Program {
  int64_t batch = 0;
  Problem problem;                 // problem.tasks[i] is tasks[i]
  std::vector<ProgramTask> tasks;  // outputs of a kernel are its task's writes, in order
  std::vector<Port> variables;     // the same first buffers in every program of a session
  std::vector<Port> constants;     // part of the arena like variables
  std::vector<Port> feeds;         // placeholders, row-major
  std::vector<Port> fetches;       // row-major, in the order asked for
};

}  // namespace plimsoll
