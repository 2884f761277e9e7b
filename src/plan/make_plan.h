// The planner: a pure function from problems and limits to a plan, or to the reason why there is none.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "plan/limits.h"
#include "plan/plan.h"
#include "plan/problem.h"

namespace plimsoll::plan {

// Throws Error when the problem or the limits make no sense.
std::variant<Plan, Shortfall> make_plan(const Problem& problem, const Limits& limits);

// A schedule of a step that needs more than the line: its time, and what it needs as far as that is known.
struct Alternative {
  double ns = 0;
  Bytes bytes = 0;
};

// The fastest plan among several problems of the same step: the whole batch, or micro-batches of several sizes. `whole`
// is the step as it was written; times and bytes without a line are its own.
struct Choice {
  size_t problem = 0;  // index into the problems
  std::variant<Plan, Shortfall> answer;
  std::vector<Alternative> alternatives;  // schedules that are faster than the answer, or any where there is none
};
Choice choose_plan(const Problem& whole, std::span<const Problem* const> problems, const Limits& limits);
// The same, but only a plan faster than `ns`; nothing where there is none.
std::optional<Choice> choose_faster_plan(const Problem& whole, std::span<const Problem* const> problems,
                                         const Limits& limits, double ns);
// Sets Plan::next_faster_bytes from what another search found for the same step.
void record_faster_alternative(Plan& plan, std::span<const Alternative> others);

// What no plan of any of the problems goes below, because this task needs its buffers at once.
struct Floor {
  size_t problem = 0;
  Bytes bytes = 0;
  TaskId task = -1;
};

// choose_plan for many lines: what does not depend on the line is searched once. The problems must outlive it.
class LineSearch {
 public:
  LineSearch(const Problem& whole, std::span<const Problem* const> problems, const Limits& limits);
  ~LineSearch();
  LineSearch(const LineSearch&) = delete;
  LineSearch& operator=(const LineSearch&) = delete;

  Choice plan_at(Bytes line);
  Floor floor() const;

 private:
  class Search;
  std::unique_ptr<Search> search_;
};

}  // namespace plimsoll::plan
