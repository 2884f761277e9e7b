#include "run/executor.h"

#include <chrono>

namespace plimsoll {

Executor::Executor(const Program& program, const Plan& plan, std::byte* base) {
  const std::vector<StepPlaces> places = find_places(program.problem, plan);
  size_t ins = 0;
  size_t outs = 0;
  for (const Step& step : plan.steps) {
    const auto task = static_cast<size_t>(step.task);
    ins += program.tasks[task].in.size();
    outs += program.problem.tasks[task].writes.size();
  }
  // Sized once: the steps point into these.
  in_.reserve(ins);
  out_.reserve(outs);
  steps_.reserve(plan.steps.size());
  for (const ProgramTask& task : program.tasks)
    if (kernels_.empty() || kernels_.back() != task.kernel) kernels_.push_back(task.kernel);

  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const ProgramTask& task = program.tasks[static_cast<size_t>(plan.steps[i].task)];
    BoundStep bound{task.kernel.get(), in_.data() + in_.size(), out_.data() + out_.size(), nullptr};
    for (const Operand& operand : task.in) {
      const std::vector<Bytes>& list = operand.list == Operand::List::Updates ? places[i].updates : places[i].reads;
      in_.push_back(base + list[static_cast<size_t>(operand.index)]);
    }
    for (const Bytes place : places[i].writes) out_.push_back(base + place);
    if (places[i].scratch >= 0) bound.scratch = base + places[i].scratch;
    steps_.push_back(bound);
  }
}

void Executor::run(const StepState& state) noexcept {
  for (const BoundStep& step : steps_) step.kernel->run({step.in, step.out, step.scratch, &state});
}

void Executor::run_timed(const StepState& state, std::span<int64_t> step_ns) noexcept {
  using Clock = std::chrono::steady_clock;
  auto last = Clock::now();
  for (size_t i = 0; i < steps_.size(); ++i) {
    const BoundStep& step = steps_[i];
    step.kernel->run({step.in, step.out, step.scratch, &state});
    const auto now = Clock::now();
    step_ns[i] = std::chrono::duration_cast<std::chrono::nanoseconds>(now - last).count();
    last = now;
  }
}

}  // namespace plimsoll
