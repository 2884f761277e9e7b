// What the planner answers: all actions and the offset of every buffer, or why the step does not fit.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include <plimsoll/error.h>
#include <plimsoll/types.h>
#include "plan/problem.h"

namespace plimsoll::plan {

struct Action {
  TaskId task = -1;         // of the problem; numbers behind those are of Plan::transfers
  int32_t micro_batch = 0;  // which micro-batch; sums add from micro-batch 1 on
  int32_t variant = -1;     // index into Task::variants; -1 is the task's own work
  bool operator==(const Action&) const = default;
};

constexpr BufferId kWorkspace = -1;

// A buffer's stay at one place, both actions included. A buffer that is dropped and recomputed, or spilled and loaded,
// has several lives; workspace has one for its action. The content is lost at the end of a life.
struct Life {
  BufferId buffer = kWorkspace;
  int32_t first_action = 0;
  int32_t last_action = 0;
  Bytes offset = 0;
  Bytes bytes = 0;  // a multiple of kAlignment
  bool operator==(const Life&) const = default;
};

enum class Exactness : uint8_t { BitIdentical, WithinTolerance };

// One thing that was done to save memory, and its price.
struct Decision {
  std::string what;
  Bytes bytes_saved = 0;
  double ns_paid = 0;
  bool operator==(const Decision&) const = default;
};

using BytesByTag = std::array<Bytes, kTagCount>;

struct Plan {
  Bytes arena_of(SpaceId space) const {
    return space == kHost ? arena_bytes : more_arenas[static_cast<size_t>(space) - 1];
  }

  Bytes arena_bytes = 0;               // of the host
  std::vector<Bytes> more_arenas;      // of each space behind it
  Bytes variable_bytes = 0;            // the bottom of the arena: variables in order of id, but for stored ones
  std::vector<int64_t> micro_batches;  // one entry when the batch is whole
  // Saves to and loads from the scratch file: tasks on the disk lane. A save reads its buffer, a load writes it.
  std::vector<Task> transfers;
  std::vector<Action> actions;
  std::vector<Life> lives;       // sorted by first action, then buffer
  std::vector<BufferId> stored;  // variables that live in the scratch file between steps, by id
  double predicted_ns = 0;
  double unconstrained_ns = 0;
  Bytes next_faster_bytes = 0;    // the least with which a faster plan was found; 0: there is none
  Bytes unconstrained_bytes = 0;  // peak of the program as written: given order, nothing shared
  Bytes live_bytes = 0;           // most bytes alive at one action of this plan; the arena is this plus fragmentation
  int32_t peak_action = -1;
  BytesByTag peak_by_tag{};
  Bytes lower_bound_bytes = 0;  // no plan is lower, because this task needs its buffers at once
  TaskId lower_bound_task = -1;
  Exactness exactness = Exactness::BitIdentical;
  std::vector<Decision> decisions;
  bool operator==(const Plan&) const = default;
};

inline bool is_transfer(const Problem& problem, const Action& action) {
  return action.task >= std::ssize(problem.tasks);
}
inline const Task& task_of(const Problem& problem, const Plan& plan, const Action& action) {
  return is_transfer(problem, action) ? plan.transfers[static_cast<size_t>(action.task) - problem.tasks.size()]
                                      : problem.tasks[static_cast<size_t>(action.task)];
}
// What an action does.
inline const Work& work_of(const Problem& problem, const Plan& plan, const Action& action) {
  const Task& task = task_of(problem, plan, action);
  return action.variant < 0 ? static_cast<const Work&>(task) : task.variants[static_cast<size_t>(action.variant)];
}

Task make_save(const Problem& problem, BufferId id, double ns);
Task make_load(const Problem& problem, BufferId id, double ns);
inline bool is_load(const Task& transfer) { return !transfer.writes.empty(); }
inline BufferId moved_by(const Task& transfer) {
  return is_load(transfer) ? transfer.writes.front() : transfer.reads.front();
}

// The sum of the times of all tasks of a lane. Lanes run concurrently, so the step may be shorter than the sum of
// lanes.
double busy_ns(const Problem& problem, const Plan& plan, Lane lane);

// Not fitting is an answer, not an error.
struct Shortfall {
  Bytes need_bytes = 0;  // the same problem fits when given exactly this
  Bytes limit_bytes = 0;
  Bytes deficit_bytes = 0;
  TaskId tightest_task = -1;
  std::vector<Holder> holders;  // the largest at the tightest task, largest first
  BytesByTag by_tag{};          // everything alive there
  Bytes lower_bound_bytes = 0;
  TaskId lower_bound_task = -1;
  bool operator==(const Shortfall&) const = default;
};

std::string_view name_of(Exactness exactness);  // "bit-identical"

// What a plan does beyond running each task once.
struct Tally {
  int64_t reruns = 0;  // tasks run again for the same micro-batch
  double rerun_ns = 0;
  int64_t variants = 0;   // tasks that run as one of their variants
  double variant_ns = 0;  // the time that this adds
  int64_t saves = 0;      // transfers
  int64_t loads = 0;
  Bytes streamed_bytes = 0;  // variables that live in the scratch file
  Bytes spilled_bytes = 0;   // other values that pass through it
};
Tally count_work(const Problem& problem, const Plan& plan);

// "does not fit: needs 611 MiB of 512 MiB; tightest at conv5 backward; ..."
std::string describe(const Problem& problem, const Shortfall& shortfall);

// Where every operand of every action lies, in the order of its work's lists: what an executor binds.
struct ActionPlaces {
  std::vector<Bytes> reads, writes, updates;
  Bytes workspace = -1;
};
std::vector<ActionPlaces> find_places(const Problem& problem, const Plan& plan);

}  // namespace plimsoll::plan
