// How a session divides its line: the process, the caller, plans, input buffers, transfers, and the arena.
#pragma once

#include <optional>
#include <vector>

#include <plimsoll/memory_line.h>
#include <plimsoll/session.h>
#include "plan/plan.h"
#include "session/engine_options.h"

namespace plimsoll::session {

// Everything but the arena is called the overhead. It is held first; the rest of the line is the arena's limit.
class Budget {
 public:
  Budget(const MemoryLine& line, const EngineOptions& options) : line_(line), options_(options) {}

  MemoryLine& line() { return line_; }
  const MemoryLine& line() const { return line_; }
  bool covers_process() const { return line_.covers_process(); }
  MemoryLine& data_line() { return *data_; }
  Bytes data_bytes() const { return options_.data_bytes + data_more_bytes_; }
  // After planning: gives so much of what the line has left to the input.
  void give_to_data(Bytes more);

  // A scratch file may be made, so its staging memory is part of the overhead.
  void allow_transfers() { has_transfers_ = true; }
  // Room for steps that are planned later, but before the session opens.
  void leave_for_later_plans(Bytes bytes) { later_bytes_ = bytes; }
  // Room for steps of other batch sizes that are planned while the session is open.
  void leave_for_other_batches(Bytes bytes) { other_batches_bytes_ = bytes; }
  void release_other_batches() { other_batches_.resize(0); }
  void hold_other_batches();
  // Each action of a plan takes so much of the line, for itself, its executor and the caller.
  Bytes action_bytes() const;
  // Actions of steps that are planned after the current one: at least so many.
  void expect_later_actions(int64_t actions) { later_actions_ = actions; }
  // Bytes that every plan must leave free because an earlier round of planning missed them.
  void leave_free(Bytes bytes) { left_free_ += bytes; }
  void forget_left_free() { left_free_ = 0; }
  Bytes left_free() const { return left_free_; }
  // Subtracts bytes that are now part of the measured process.
  void reduce_left_free(Bytes grown);

  // Measures the process again, less what will be given back before the arena is touched, and holds the overhead.
  void hold_overhead(Bytes leaving, bool is_open);
  Bytes overhead_bytes() const;
  Bytes limit_for_arena() const;
  Bytes held_bytes() const;  // of the line, by this session
  // What the process and the overhead take without the arena and input buffers: Refusal::runtime.
  Bytes runtime_need() const;
  // The process's peak when planning takes so much beside what is planned.
  Bytes peak_of_planning(Bytes planning_bytes, Bytes leaving) const;

  void hold_plans(Bytes more) { plans_.resize(plans_.bytes() + more); }
  // Once all plans exist, measures them instead of estimating. Returns the bytes by which the line is exceeded.
  [[nodiscard]] Bytes settle(int64_t actions, Bytes leaving);
  // The plans' estimated bytes are given back: they and their executors are measured with the process.
  void release_plans() { plans_.resize(0); }

  void hold_arena(Bytes arena_bytes, const plan::BytesByTag& by_tag);
  void release_arena() { arena_.clear(); }
  void set_arena_resident();
  void set_transfers_resident() { transfers_.set_resident(transfers_.bytes()); }
  void release_later_plans() { later_.release(); }
  void release_all();

  // Remembers what is held beside arena and input now, before later steps use what was left for planning them.
  void note_runtime();
  Bytes runtime_bytes() const { return runtime_bytes_; }

 private:
  Bytes caller_bytes() const { return covers_process() ? options_.caller_bytes : 0; }
  Bytes transfer_bytes() const;
  Bytes arena_held() const;
  void release_all_but_data();

  MemoryLine line_;
  const EngineOptions& options_;
  std::optional<MemoryLine> data_;
  Reservation caller_, later_, other_batches_, plans_, transfers_;
  std::vector<Reservation> arena_;
  bool has_transfers_ = false;
  bool has_overhead_ = false;  // the overhead fits the line
  Bytes runtime_bytes_ = 0;
  Bytes data_more_bytes_ = 0;
  Bytes left_free_ = 0;
  int64_t later_actions_ = 0;
  Bytes later_bytes_ = 0;
  Bytes other_batches_bytes_ = 0;
};

}  // namespace plimsoll::session
