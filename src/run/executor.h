// Walks the actions of a plan with pointers bound beforehand. Between construction and destruction it allocates
// nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "lower/program.h"
#include "plan/plan.h"
#include "run/exchanges.h"
#include "run/transfers.h"

namespace plimsoll::run {

// The scratch file of a plan that saves and loads: where each buffer lies in it, by id.
struct FilePlaces {
  Transfers* transfers = nullptr;
  std::vector<Bytes> places = {};
};

class Executor {
 public:
  // Binds the program's kernels to the plan's places in the arena at `base`.
  Executor(const lower::Program& program, const plan::Plan& plan, std::byte* base, const FilePlaces& file = {});

  // Sets where the caller holds the value of a given input of the program from now on: aligned to kAlignment, and
  // readable to the next multiple of it. Costs a few stores.
  void give(plan::BufferId input, const std::byte* data) noexcept;
  // The same for all given buffers. `places` is indexed by buffer id; entries of other buffers are ignored.
  void give_all(std::span<std::byte* const> places) noexcept;

  // Tasks on the network lane run in `exchanges` from now on; null: in their turn, like all others.
  void set_exchanges(Exchanges* exchanges) noexcept { exchanges_ = exchanges; }

  // After a failure of the file (see Transfers) the values are garbage.
  void run(const kernels::StepState& state) noexcept;

  // The same, with a call after each action.
  void run_watched(const kernels::StepState& state, const std::function<void(size_t action)>& look);

  size_t actions() const { return actions_.size(); }
  // The same, with the time of each action.
  void run_timed(const kernels::StepState& state, std::span<int64_t> step_ns) noexcept;

 private:
  struct BoundAction {
    kernels::Kernel* kernel;  // null: a transfer
    const void* const* in;
    void* const* out;
    void* workspace;
    int32_t micro_batch;  // of a transfer: its number
    int32_t wait_for;     // so many transfers of this run must be done before; 0: none
  };
  struct BoundTransfer {
    bool is_load;
    std::byte* memory;
    Bytes place, bytes;
  };
  struct GivenOperand {
    plan::BufferId buffer;
    size_t operand;  // of in_ or out_
    Bytes offset;    // from the start of the buffer
    bool is_out;
  };
  // An action that is an exchange, or that must wait for one: few are.
  struct Meeting {
    int32_t action;
    int32_t wait_for;  // so many exchanges of this run must be done before; 0: none
    bool is_exchange;
  };
  class Binder;

  void begin(const kernels::StepState& state) noexcept;
  void end() noexcept;
  void run_action(const BoundAction& action) noexcept;
  kernels::Args args_of(const BoundAction& action) const noexcept;

  std::vector<std::shared_ptr<kernels::Kernel>> kernels_;  // keeps them alive
  std::vector<const void*> in_;
  std::vector<GivenOperand> given_;
  std::vector<void*> out_;
  std::vector<BoundAction> actions_;
  std::vector<BoundTransfer> transfers_;
  std::vector<kernels::StepState> states_;  // of each micro-batch
  std::vector<int64_t> first_samples_;      // of each, within the batch of this step
  std::vector<Meeting> meetings_;           // in the order of actions
  const Meeting* next_meeting_ = nullptr;   // of the run under way
  Exchanges* exchanges_ = nullptr;
  int64_t exchanges_before_ = 0;  // started before this run
  Transfers* queue_ = nullptr;
  int64_t tickets_before_ = 0;  // given out before this run
};

}  // namespace plimsoll::run
