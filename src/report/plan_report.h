// A planned step and what is around it, for people and for programs; and the refusal when there is no plan.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <plimsoll/error.h>
#include "report/data.h"
#include "report/scale_report.h"
#include "report/words.h"

namespace plimsoll::report {

// No plan of this step goes below so many bytes of the process, because one task needs them at once.
struct LowerBound {
  Bytes bytes = 0;
  std::string reason;
};

// Weights that the step reads and nothing updates.
struct FrozenFacts {
  int64_t weights = 0;
  Bytes bytes = 0;  // as they are kept
};

// What a rank holds between steps, where several train together.
struct SharingFacts {
  int ranks = 1;
  std::string sharding = {};  // what they share: "state"
  std::string reason = {};    // when that was searched for
  Bytes weight_bytes = 0, gradient_bytes = 0, state_bytes = 0;
  Bytes received_bytes = 0;  // the buffer of all exchanges
};

// A plan that the line had room for and that was not chosen: of the whole batch in place of micro-batches, or the other
// way.
struct OtherPlan {
  int64_t micro_batches = 1;
  double predicted_ns = 0;
  Bytes arena_bytes = 0;
};

// All that the description of a planned step needs. Problem and plan must outlive it.
struct PlanFacts {
  const plan::Problem& problem;
  const plan::Plan& plan;
  std::string model = {};  // may be empty, as may all that follows but the batch
  int64_t batch = 1;
  std::string batch_reason = {};                         // when the batch was searched for
  int64_t weights = 0;                                   // numbers of the model
  FrozenFacts frozen = {};                               // of them, those that are not trained
  SharingFacts ranks = {};                               // that train it together
  Bytes line_bytes = std::numeric_limits<Bytes>::max();  // the largest number: no line
  std::string line_reason = {};
  Bytes limit_bytes = std::numeric_limits<Bytes>::max();  // of arena and actions, that the plan was made under
  Bytes arena_bytes = 0;
  Bytes runtime_bytes = 0;  // beside arena and data
  Bytes data_bytes = 0;
  Bytes data_more_bytes = 0;  // given to the input of what the line has left: threads, slots, arrays in memory
  InputFacts data = {};
  Bytes peak_bytes = 0;  // of all of it, planning included
  Bytes scratch_file_bytes = 0;
  std::string scratch_folder = {};
  ResultChanges changes = {};
  int64_t half_values = 0;                     // values that are kept in 16 bits
  Bytes half_value_bytes = 0;                  // that they take so
  int64_t products = 0;                        // tasks of operators that know bf16
  int64_t half_products = 0;                   // those that are computed in bf16
  int64_t accumulate = 1;                      // batches for each update
  Bytes mask_bytes = 0;                        // of pruning, one bit for each weight that may become zero
  std::optional<LowerBound> lower_bound = {};  // over all options of the step, where they were searched
  std::optional<OtherPlan> other = {};         // that could have been chosen
  Bytes smallest_line = 0;                     // that a plan was made under; 0: not searched
  std::optional<ScaleFacts> scale = {};        // on more and fewer ranks, where that was asked for
  Bytes around_arena() const { return runtime_bytes + data_bytes; }
  // What the line holds beside the arena and the actions of the plan.
  Bytes overhead_bytes() const {
    const bool is_open = limit_bytes == std::numeric_limits<Bytes>::max();
    return is_open ? around_arena() : line_bytes - limit_bytes;
  }
};

// The largest decisions are listed, at most so many; `see_all` tells how to see the others.
struct PlanTextOptions {
  size_t most_decisions = 10;
  std::string see_all = {};
};
std::string plan_text(const PlanFacts& facts, const PlanTextOptions& options = {});

// Spaces of indentation for each level of a JSON text; -1: one line.
constexpr int kOneLine = -1;
std::string plan_json(const PlanFacts& facts, int indent = kOneLine);

// One way to make a step fit that was refused. Each was planned.
struct RemedyRow {
  std::string change;            // "batch 12": what is set otherwise
  std::string flags;             // the same for a command line; empty: there is none
  std::string what;              // in words
  double slowdown = 1;           // predicted time for a sample over that of the requested step without a line
  bool changes_results = false;  // another batch or optimiser; micro-batches and the disk do not count
  bool is_lossy = false;         // numbers are kept in 16 bits
  Bytes scratch_file_bytes = 0;
};
// A table, with flags in the first column where there are any.
// `not_tried`: those that there was no time for, in words.
std::string remedies_text(const std::vector<RemedyRow>& remedies, const std::vector<std::string>& not_tried = {});
std::string refusal_json(const Refusal& refusal, const std::vector<RemedyRow>& remedies, int indent = kOneLine,
                         const std::vector<std::string>& not_tried = {});

}  // namespace plimsoll::report
