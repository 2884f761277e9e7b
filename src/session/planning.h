// Plans the steps of a session under its budget: one arena and one scratch file for all of them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include <plimsoll/error.h>
#include "memory/scratch_file.h"
#include "plan/make_plan.h"
#include "session/budget.h"
#include "session/lowering.h"

namespace plimsoll::session {

// Owns the planned steps. Those that were asked for before the session opened stay; others are a bounded cache.
class StepPlanner {
 public:
  StepPlanner(const graph::Body& graph, const EngineOptions& options, Budget& budget, StepLowering& lowering,
              Bytes planning_line);

  // Lowers and plans all of them. Throws DoesNotFit.
  void plan_all(const std::vector<Request>& requests);
  // The number of a step that equals the request.
  std::optional<size_t> find(const Request& request) const;
  // Lowers and plans one more; its arena may not pass what the earlier ones leave. Throws DoesNotFit.
  size_t plan_more(const Request& request);
  // From now on there is an arena.
  void set_open() { is_open_ = true; }

  std::vector<PlannedStep>& steps() { return steps_; }
  const std::vector<PlannedStep>& steps() const { return steps_; }
  Bytes arena_bytes() const { return arena_bytes_; }
  Bytes file_bytes() const { return file_bytes_; }
  Bytes planning_peak_bytes() const { return planning_peak_bytes_; }
  // What is given back when the session opens, before the arena is touched.
  Bytes leaving_bytes() const;
  // What planning may take beside what is held now. The arena is taken only when the session opens.
  Bytes room_to_plan() const;

 private:
  Bytes planning_line() const { return planning_line_ > 0 ? planning_line_ : budget_.line().limit(); }
  bool may_spill() const { return disk_speed_.read_bytes_per_s > 0; }
  void leave_room_for_later(const PlannedStep& last, Bytes lowered_bytes);
  Bytes counted_bytes() const;
  void plan_in_order(const std::vector<size_t>& order);
  plan::Limits limits_for(const PlannedStep& step) const;
  // Both return by how many bytes the arena of the earlier steps is too large; 0: it fits.
  [[nodiscard]] Bytes plan_step(PlannedStep& step);
  [[nodiscard]] Bytes accept(PlannedStep& step, plan::Plan plan, const plan::Limits& limits);
  void forget_plans(const std::vector<size_t>& order);
  void evict_plans();
  void hold_arena(const PlannedStep& accepted);
  Bytes peak_of_planning(Bytes planning_bytes) const;
  Bytes bytes_to_plan_another(int64_t tasks) const;
  void expect_room_to_plan() const;
  void note_planning_peak(Bytes peak_before);
  void expect_room_for_planning(const plan::Problem& problem, const plan::Plan& plan);
  Refusal describe(const plan::Problem& problem, const plan::Shortfall& shortfall, Bytes planning_bytes) const;
  [[noreturn]] void refuse(const PlannedStep& step, std::span<const plan::Problem* const> problems,
                           const plan::Limits& limits, const plan::Choice& choice) const;
  [[noreturn]] void refuse_grown(const PlannedStep& step) const;

  const graph::Body& graph_;
  const EngineOptions& options_;
  Budget& budget_;
  StepLowering& lowering_;
  const Bytes planning_line_;  // 0: the line itself
  std::vector<PlannedStep> steps_;
  size_t kept_steps_ = 0;  // the first of steps_
  bool is_open_ = false;
  memory::DiskSpeed disk_speed_;
  std::optional<std::vector<plan::BufferId>> stored_;  // variables in the scratch file, once a plan has decided
  Bytes arena_bytes_ = 0;
  Bytes file_bytes_ = 0;
  Bytes planning_peak_bytes_ = 0;  // of the process, counted
};

}  // namespace plimsoll::session
