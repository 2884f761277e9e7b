// A step that a session was asked for, and what planning made of it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <plimsoll/session.h>
#include "graph/body.h"
#include "lower/program.h"
#include "plan/limits.h"
#include "plan/plan.h"
#include "report/plan_report.h"
#include "run/executor.h"
#include "session/number_watch.h"

namespace plimsoll::session {

// What one kind of step computes: values to hand out and variables to change.
struct Request {
  std::vector<Tensor> fetches;
  std::vector<NodeId> updates;
  int64_t batch = 1;
  std::vector<ValueId> fetch_ids() const;
  bool operator==(const Request& other) const;
};

// The node and micro-batch of an action, to name them when its kernel finds a bad value.
struct ActionOrigin {
  NodeId node;  // -1: a reorder or a transfer
  int32_t micro_batch;
};

struct PlannedStep {
  Request request;
  lower::Program program;
  plan::Plan plan;
  plan::Limits limits = {};                 // that the plan was made under
  std::vector<Bytes> file_places = {};      // by buffer, of what the plan saves and loads
  std::unique_ptr<run::Executor> executor;  // null before the session opens
  std::unique_ptr<NumberWatch> watch;       // null unless SessionOptions::finds_bad_numbers
  std::vector<std::byte*> feed_places;      // of program.feeds; null for one that is read where the caller has it
  std::vector<View> views;                  // of program.fetches
  std::vector<ActionOrigin> origins;        // by action, once bound
  int64_t lowered_tasks = 0;                // sizes of program.tasks and plan.actions, which forget_details empties
  int64_t planned_actions = 0;
  std::optional<report::OtherPlan> other = {};  // that could have been chosen
  int64_t last_used = 0;                        // the session's run count at the last use

  // Heap bytes of tasks, names and lives, which a bound step no longer needs.
  Bytes detail_bytes() const;
  void forget_details();
  // Estimated heap bytes of the step, also after forget_details.
  Bytes estimated_bytes() const;
};

// Measured on the longest plans: an action of a plan with its lives (two on average) and its executor's part.
constexpr Bytes kBytesOfAction = 192;
constexpr Bytes kBytesOfBoundAction = 104;  // the executor's part alone
// A task of a program with its operands, names and costs.
constexpr Bytes kBytesOfTask = 1200;
// What lowering takes for each node of the graph beside the program that it makes.
constexpr Bytes kBytesToLowerNode = 320;

}  // namespace plimsoll::session
