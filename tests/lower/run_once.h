// Runs a graph once, straight from lowering: for tests that compare rewrites.
#pragma once

#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "lower/lower.h"
#include "memory/arena.h"
#include "plan/make_plan.h"
#include "run/executor.h"

namespace plimsoll::testing {

using namespace memory;

using namespace lower;
using namespace plan;
using namespace run;

struct Ran {
  Program program;
  Plan plan;
  std::vector<std::vector<float>> fetches;
  std::map<ValueId, std::vector<float>> variables;  // after the run; row-major where their layout is
  Bytes buffer_bytes = 0;

  // How many tasks run that operator.
  int64_t count(std::string_view op) const {
    int64_t tasks = 0;
    for (const ProgramTask& task : program.tasks) tasks += task.op != nullptr && task.op->name == op ? 1 : 0;
    return tasks;
  }
};

// What placeholders and variables hold before a run; integers count up.
inline float pattern(ValueId value, int64_t i) { return std::sin(static_cast<float>(i * 7 + value)); }

// Lowers, plans and runs the graph. Nothing in the result when the step can't be cut as the options say.
inline Ran run_once(const Graph& graph, const std::vector<Tensor>& fetches, const LowerOptions& options,
                    const std::vector<NodeId>& updates = {}, Bytes line = Limits{}.bytes) {
  std::vector<ValueId> ids;
  for (const Tensor& fetch : fetches) ids.push_back(fetch.id());
  VariableLayouts layouts;
  KernelStore kernels;
  Ran ran;
  auto lowered = lower_in_micro_batches(graph.body(), ids, updates, options, layouts, kernels);
  if (!lowered) return ran;
  ran.program = std::move(*lowered);
  const Program& program = ran.program;
  Limits limits;
  limits.batch = options.batch;
  limits.bytes = line;
  ran.plan = std::get<Plan>(make_plan(program.problem, limits));
  const Plan& plan = ran.plan;
  Arena arena(plan.arena_bytes);
  arena.commit(plan.arena_bytes);
  const auto place = [&](BufferId buffer) {
    Bytes offset = -1;
    for (const Life& life : plan.lives)
      if (life.buffer == buffer) offset = life.offset;
    return reinterpret_cast<float*>(arena.data() + offset);
  };
  for (const auto* ports : {&program.feeds, &program.variables}) {
    for (const Port& port : *ports)
      for (int64_t i = 0; i < port.type.count(); ++i) {
        if (port.type.dtype == DType::I32)
          reinterpret_cast<int32_t*>(place(port.buffer))[i] = static_cast<int32_t>(i);
        else
          place(port.buffer)[i] = pattern(port.value, i);
      }
  }
  for (const Port& port : program.constants)
    std::memcpy(place(port.buffer), graph.body().constant_of(port.value).bytes.data(),
                graph.body().constant_of(port.value).bytes.size());
  Executor executor(program, plan, arena.data());
  executor.run({});
  for (const Buffer& buffer : program.problem.buffers) ran.buffer_bytes += placed_bytes(buffer, options.batch);
  for (const Port& port : program.fetches)
    ran.fetches.emplace_back(place(port.buffer), place(port.buffer) + port.type.count());
  for (const Port& port : program.variables)
    ran.variables[port.value].assign(place(port.buffer), place(port.buffer) + port.type.count());
  return ran;
}

}  // namespace plimsoll::testing
