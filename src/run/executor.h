// Walks the steps of a plan with pointers bound beforehand. Between construction and destruction it allocates nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lower/program.h"
#include "plan/plan.h"

namespace plimsoll {

class Executor {
 public:
  // Binds the program's kernels to the plan's places in the arena at `base`.
  Executor(const Program& program, const Plan& plan, std::byte* base);

  void run(const StepState& state) noexcept;

  size_t steps() const { return steps_.size(); }
  // The same, with the time of each step.
  void run_timed(const StepState& state, std::span<int64_t> step_ns) noexcept;

 private:
  struct BoundStep {
    Kernel* kernel;
    const void* const* in;
    void* const* out;
    void* scratch;
  };
  std::vector<std::shared_ptr<Kernel>> kernels_;  // keeps them alive
  std::vector<const void*> in_;
  std::vector<void*> out_;
  std::vector<BoundStep> steps_;
};

}  // namespace plimsoll
