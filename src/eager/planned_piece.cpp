#include "eager/planned_piece.h"

#include <algorithm>
#include <variant>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "plan/check/check.h"
#include "plan/make_plan.h"

namespace plimsoll::eager {

PlannedPiece::PlannedPiece(std::shared_ptr<const PieceGoal> goal, int32_t wanted)
    : goal_(std::move(goal)), wanted_(wanted) {}

std::optional<plan::Shortfall> PlannedPiece::plan(Bytes limit, std::byte* arena, lower::KernelStore& kernels) {
  const LoweredPiece lowered(*goal_, wanted_, kernels);
  const plan::Problem& problem = lowered.program().problem;
  plan::Limits limits;
  limits.bytes = std::max<Bytes>(limit, 0);
  limits.levers.micro_batch = limits.levers.spill = false;
  std::variant<plan::Plan, plan::Shortfall> answer = plan::make_plan(problem, limits);
  if (auto* shortfall = std::get_if<plan::Shortfall>(&answer)) {
    missed_bytes_ = shortfall->need_bytes;
    return std::move(*shortfall);
  }
  const plan::Plan& plan = std::get<plan::Plan>(answer);
  if (const std::string wrong = plan::check(problem, plan, limits); !wrong.empty())
    throw Error(fmt::format("the planner made a plan that does not hold: {}", wrong));
  bind(lowered, plan, arena);
  planned_limit_ = limit;
  return {};
}

void PlannedPiece::bind(const LoweredPiece& lowered, const plan::Plan& plan, std::byte* arena) {
  const lower::Program& program = lowered.program();
  executor_ = std::make_unique<run::Executor>(program, plan, arena);
  arena_bytes_ = plan.arena_bytes;
  predicted_ns_ = plan.predicted_ns;
  slowdown_ = plan.unconstrained_ns > 0 ? plan.predicted_ns / plan.unconstrained_ns - 1 : 0;
  action_ops_.clear();
  for (const plan::Action& action : plan.actions)
    action_ops_.push_back(program.tasks[static_cast<size_t>(action.task)].op);
  by_buffer_.assign(program.problem.buffers.size(), nullptr);
  places_ = lowered.places();
  constants_ = lowered.copy_constants(by_buffer_);
}

void PlannedPiece::run(const kernels::StepState& state, std::span<std::byte* const> leaves,
                       std::span<std::byte* const> targets) {
  for (const LoweredPiece::Place& place : places_) {
    std::byte* const memory = (place.is_target ? targets : leaves)[static_cast<size_t>(place.number)];
    by_buffer_[static_cast<size_t>(place.buffer)] = memory == nullptr ? nullptr : memory + place.offset;
  }
  executor_->give_all(by_buffer_);
  executor_->run(state);
}

std::shared_ptr<const WalkProgram> PlannedPiece::walk_program(lower::KernelStore& kernels) {
  if (walk_ == nullptr) walk_ = std::make_shared<WalkProgram>(*goal_, wanted_, kernels);
  return walk_;
}

Bytes PlannedPiece::bytes() const {
  // Estimates: an action with its operands, kernel and what libraries keep for it; the lists of a plan; a task of a
  // walk.
  constexpr Bytes kBytesOfAction = 900, kBytesOfPlan = 4 * KiB, kBytesOfTask = 2 * KiB;
  const Bytes walk = walk_ == nullptr ? 0 : std::ssize(walk_->tasks()) * kBytesOfTask;
  return kBytesOfPlan + std::ssize(action_ops_) * kBytesOfAction + std::ssize(by_buffer_) * 8 + walk;
}

}  // namespace plimsoll::eager
