// What the executor itself costs: steps whose kernels do nothing.
#include <benchmark/benchmark.h>

#include "memory/arena.h"
#include "plan/make_plan.h"
#include "run/executor.h"

namespace plimsoll {
namespace {

using namespace memory;

using namespace kernels;
using namespace lower;
using namespace plan;
using namespace run;

Program chain_of_nothing(int tasks) {
  Program program;
  program.batch = 1;
  program.problem.buffers.push_back({"x", Tag::Data, BufferKind::Input, 64, 0});
  const auto kernel = make_kernel([](const Args& args) { benchmark::DoNotOptimize(args.out); });
  for (int i = 0; i < tasks; ++i) {
    program.problem.buffers.push_back({"y", Tag::Activations, BufferKind::Temporary, 64, 0});
    program.problem.buffers.back().name += std::to_string(i);
    Task task;
    task.name = "t" + std::to_string(i);
    task.reads = {i};
    task.writes = {i + 1};
    program.problem.tasks.push_back(task);
    lower::ProgramTask bound{{kernel}, -1};
    bound.own.in = {{KernelOperand::List::Reads, 0}};
    program.tasks.push_back(std::move(bound));
  }
  program.problem.buffers.back().kind = BufferKind::Output;
  return program;
}

void overhead_per_step(benchmark::State& state) {
  const Program program = chain_of_nothing(static_cast<int>(state.range(0)));
  const Plan plan = std::get<Plan>(make_plan(program.problem, Limits{}));
  Arena arena(plan.arena_bytes);
  arena.commit(plan.arena_bytes);
  Executor executor(program, plan, arena.data());
  const StepState step;
  for (auto _ : state) executor.run(step);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(overhead_per_step)->Arg(100)->Arg(1000)->Arg(50000);

}  // namespace
}  // namespace plimsoll
