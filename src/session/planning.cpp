#include "session/planning.h"

#include <algorithm>

#include <fmt/format.h>

#include "memory/kept_facts.h"
#include "memory/process.h"
#include "plan/check/check.h"
#include "plan/effort.h"
#include "session/homes.h"
#include "session/variables.h"

namespace plimsoll::session {
namespace {

// Where the line has no room for a plan at all, planning still takes this much, to name a line that has.
constexpr Bytes kLeastSearchBytes = 8 * MiB;
// What an earlier round missed is left free in steps of this, because the process grows a little with each round too.
constexpr Bytes kLeftFreeAtOnce = 64 * KiB;

// The time of a plan with the same bits as without a line may be so many times that of micro-batches, whose sums are
// rounded in another order.
constexpr double kPriceOfBits = 1.1;

// What a search takes beside is more than plan/effort.h counts, by at most a third.
Bytes room_to_search(Bytes room) { return room - room / 4; }

// Staging memory behind all variables, through which one is copied from or to row-major memory or the file.
Bytes staging_bytes(const lower::Port& port, bool is_stored) {
  Bytes bytes = port.packed ? piece_bytes(*port.packed) : 0;
  if (!port.type.layout.is_plain()) bytes += round_up(port.type.count() * size_of(port.type.dtype), kAlignment);
  if (is_stored) bytes += round_up(port.type.bytes(), kAlignment);
  return bytes;
}

Bytes staging_bytes(const PlannedStep& step) {
  const std::vector<plan::BufferId>& stored = step.plan.stored;
  Bytes most = 0;
  for (const lower::Port& port : step.program.variables) {
    const auto first = std::lower_bound(stored.begin(), stored.end(), port.buffer);
    const bool is_stored = first != stored.end() && *first < port.buffer + port.tiles;
    most = std::max(most, staging_bytes(port, is_stored));
  }
  return most;
}

// Programs of a session list the same variables.
bool have_same_layouts(const lower::Program& a, const lower::Program& b) {
  return std::ranges::equal(
      a.variables, b.variables, {}, [](const lower::Port& port) { return port.type.layout; },
      [](const lower::Port& port) { return port.type.layout; });
}

}  // namespace

StepPlanner::StepPlanner(const graph::Body& graph, const EngineOptions& options, Budget& budget, StepLowering& lowering,
                         Bytes planning_line)
    : graph_(graph), options_(options), budget_(budget), lowering_(lowering), planning_line_(planning_line) {}

void StepPlanner::plan_all(const std::vector<Request>& requests) {
  const Bytes peak_before = budget_.covers_process() ? peak_resident_bytes() : 0;
  for (const Request& request : requests)
    if (!request.updates.empty()) budget_.line().expect_training();
  // Kernels of a training step decide the layouts of variables, so it is lowered before others.
  std::vector<size_t> order(requests.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return requests[a].updates.size() > requests[b].updates.size(); });
  steps_.resize(requests.size());
  kept_steps_ = requests.size();
  Bytes before = 0;
  for (const size_t i : order) {
    before = counted_bytes();
    lowering_.lower(steps_[i], requests[i]);
  }
  if (!order.empty() && budget_.covers_process()) leave_room_for_later(steps_[order.back()], counted_bytes() - before);
  int64_t most_tasks = 0;
  for (const PlannedStep& step : steps_) most_tasks = std::max(most_tasks, step.lowered_tasks);
  if (budget_.covers_process() && options_.plans_other_batches)
    budget_.leave_for_other_batches(round_up(bytes_to_plan_another(most_tasks), kProcessQuantum / 2));
  lowering_.close_layouts();
  // A variable has one place and one layout in all steps, also in those that do not use it and were lowered before it
  // was chosen. The last one knows what all have chosen.
  for (const size_t i : order)
    if (!have_same_layouts(steps_[i].program, steps_[order.back()].program))
      lowering_.lower(steps_[i], Request(steps_[i].request));
  if (options_.levers.spill && !options_.scratch_folder.empty())
    disk_speed_ = memory::kept_disk_speed(options_.scratch_folder, options_.disk_limit).speed;
  if (may_spill()) budget_.allow_transfers();
  plan_in_order(order);
  if (!order.empty() && budget_.covers_process()) note_planning_peak(peak_before);
}

Bytes StepPlanner::counted_bytes() const {
  if (!budget_.covers_process() || options_.later_plans == 0) return 0;
  const memory::ProcessMemory memory = memory::measure_process_memory();
  return memory.heap_bytes + memory.generated_code_bytes;
}

// A step that is planned later takes what the last one took: its tasks, until the session opens, and its kernels, of
// which micro-batches have up to twice as many.
void StepPlanner::leave_room_for_later(const PlannedStep& last, Bytes lowered_bytes) {
  const Bytes details = options_.keeps_plans ? 0 : last.detail_bytes();
  const Bytes each =
      2 * std::max<Bytes>(0, lowered_bytes - details) + std::ssize(last.program.tasks) * budget_.action_bytes();
  budget_.leave_for_later_plans(options_.later_plans * round_up(each, kProcessQuantum / 2));
}

// A plan may take more beside its arena than was left for it: kernels of micro-batches, actions of later steps. All
// steps are then planned again, with that much left free.
void StepPlanner::plan_in_order(const std::vector<size_t>& order) {
  const int most_rounds = 5 + static_cast<int>(order.size());
  Bytes process_before = MemoryLine::kUnlimited;
  std::vector<int64_t> actions;  // of each step: its tasks, or as many as it was planned with
  for (const PlannedStep& step : steps_) actions.push_back(std::ssize(step.program.tasks));
  for (int round = 1;; ++round) {
    budget_.hold_overhead(leaving_bytes(), is_open_);
    // Growth of the process in the round before, such as tables of libraries, is measured now: it is not left free too.
    budget_.reduce_left_free(budget_.line().process_bytes() - process_before);
    process_before = budget_.line().process_bytes();
    Bytes missing = 0;
    for (auto i = order.begin(); i != order.end() && missing == 0; ++i) {
      int64_t later_actions = 0;
      for (auto later = i + 1; later != order.end(); ++later) later_actions += actions[*later];
      budget_.expect_later_actions(later_actions);
      missing = plan_step(steps_[*i]);
    }
    int64_t planned = 0;
    bool has_more = false;
    for (size_t i = 0; i < steps_.size(); ++i) {
      planned += steps_[i].planned_actions;
      has_more = has_more || steps_[i].planned_actions > actions[i];
      actions[i] = std::max(actions[i], steps_[i].planned_actions);
    }
    if (missing == 0) {
      missing = budget_.settle(planned, leaving_bytes());
      has_more = false;
    }
    if (missing == 0) {
      budget_.forget_left_free();  // the plans that it was left for exist now, and are measured
      return;
    }
    if (round == most_rounds) refuse_grown(steps_[order.front()]);
    // Actions that were not expected are expected from now on, so that nothing more is left free for them.
    if (!has_more) budget_.leave_free(round_up(missing, kLeftFreeAtOnce));
    forget_plans(order);
  }
}

void StepPlanner::forget_plans(const std::vector<size_t>& order) {
  stored_.reset();
  arena_bytes_ = file_bytes_ = 0;
  budget_.release_arena();
  for (const size_t i : order) {
    PlannedStep again;
    again.request = std::move(steps_[i].request);
    steps_[i] = std::move(again);
    lowering_.lower(steps_[i], Request(steps_[i].request));
  }
}

std::optional<size_t> StepPlanner::find(const Request& request) const {
  for (size_t i = 0; i < steps_.size(); ++i)
    if (steps_[i].request == request) return i;
  return std::nullopt;
}

size_t StepPlanner::plan_more(const Request& request) {
  evict_plans();
  if (!request.updates.empty()) budget_.line().expect_training();
  budget_.expect_later_actions(0);
  if (is_open_) {
    budget_.release_other_batches();
    budget_.line().measure_process();
    expect_room_to_plan();
  }
  PlannedStep step;
  lowering_.lower(step, request);
  if (plan_step(step) > 0) refuse_grown(step);
  steps_.push_back(std::move(step));
  return steps_.size() - 1;
}

// Makes room for one more plan: the least recently used go, with kernels that only they used.
void StepPlanner::evict_plans() {
  Bytes held = 0;
  for (size_t i = kept_steps_; i < steps_.size(); ++i) held += steps_[i].estimated_bytes();
  const Bytes more = steps_.empty() ? 0 : steps_.back().estimated_bytes();
  while (steps_.size() > kept_steps_ && held + more > options_.plan_cache_bytes) {
    const auto oldest =
        std::min_element(steps_.begin() + static_cast<int64_t>(kept_steps_), steps_.end(),
                         [](const PlannedStep& a, const PlannedStep& b) { return a.last_used < b.last_used; });
    held -= oldest->estimated_bytes();
    steps_.erase(oldest);
  }
  lowering_.drop_unused_kernels();
}

Bytes StepPlanner::leaving_bytes() const {
  Bytes bytes = 0;
  if (!options_.keeps_plans && !is_open_)
    for (const PlannedStep& step : steps_) bytes += step.detail_bytes();
  return bytes;
}

plan::Limits StepPlanner::limits_for(const PlannedStep& step) const {
  plan::Limits limits;
  limits.bytes = budget_.limit_for_arena();
  limits.batch = step.request.batch;
  limits.levers = options_.levers;
  limits.action_bytes = budget_.action_bytes();
  if (budget_.covers_process() && limits.bytes < MemoryLine::kUnlimited) {
    const Bytes room = room_to_plan(), least = bytes_to_plan(step.program.problem);
    limits.search_bytes = room >= least ? std::max(least, room_to_search(room)) : std::max(kLeastSearchBytes, room);
  }
  if (may_spill()) {
    limits.disk_bytes = options_.disk_limit;
    for (const lower::Port& port : step.program.variables)
      limits.staging_bytes = std::max(limits.staging_bytes, staging_bytes(port, true));
    limits.disk_read_bytes_per_s = disk_speed_.read_bytes_per_s;
    limits.disk_write_bytes_per_s = disk_speed_.write_bytes_per_s;
  }
  limits.stored = stored_;
  return limits;
}

// Plans the whole batch first; micro-batches only when that plan is slower than without a line, or does not fit. Of two
// plans that fit, the whole batch is chosen unless it is slower by more than kPriceOfBits.
Bytes StepPlanner::plan_step(PlannedStep& step) {
  const plan::Problem& whole = step.program.problem;
  if (budget_.covers_process()) memory::drop_code_near(budget_.line().limit());
  const plan::Limits limits = limits_for(step);
  const plan::Problem* const one[] = {&whole};
  plan::Choice choice = choose_plan(whole, one, limits);
  const auto* plan = std::get_if<plan::Plan>(&choice.answer);
  if (plan != nullptr && plan->predicted_ns <= plan->unconstrained_ns)
    return accept(step, std::move(std::get<plan::Plan>(choice.answer)), limits);
  std::vector<lower::Program> splits;
  if (lowering_.has_room_for_splits(step, limits.search_bytes))
    splits = lowering_.lower_splits(step.request, step.program);
  std::vector<const plan::Problem*> problems;
  plan::Limits beside = limits;  // the programs of all sizes
  for (const lower::Program& split : splits) {
    problems.push_back(&split.problem);
    if (beside.search_bytes < MemoryLine::kUnlimited) beside.search_bytes -= kBytesOfTask * std::ssize(split.tasks);
  }
  std::optional<plan::Choice> better;
  if (!splits.empty())
    better = plan == nullptr ? choose_plan(whole, problems, beside)
                             : choose_faster_plan(whole, problems, beside, plan->predicted_ns);
  const auto* const split = better ? std::get_if<plan::Plan>(&better->answer) : nullptr;
  const auto note = [&](const plan::Plan& other) {
    step.other = {std::ssize(other.micro_batches), other.predicted_ns, other.arena_bytes};
  };
  if (split != nullptr && plan != nullptr && plan->predicted_ns <= kPriceOfBits * split->predicted_ns) {
    note(*split);
  } else if (split != nullptr) {
    if (plan != nullptr) note(*plan);
    step.program = std::move(splits[better->problem]);
    splits.clear();
    lowering_.drop_unused_kernels();
    auto& chosen = std::get<plan::Plan>(better->answer);
    plan::record_faster_alternative(chosen, choice.alternatives);
    return accept(step, std::move(chosen), limits);
  }
  if (plan != nullptr) return accept(step, std::move(std::get<plan::Plan>(choice.answer)), limits);
  const auto need = [](const plan::Choice& made) { return std::get<plan::Shortfall>(made.answer).need_bytes; };
  if (better && need(*better) < need(choice)) refuse(step, problems, limits, *better);
  refuse(step, one, limits, choice);
}

Bytes StepPlanner::accept(PlannedStep& step, plan::Plan plan, const plan::Limits& limits) {
  step.plan = std::move(plan);
  step.plan.actions.shrink_to_fit();
  step.plan.lives.shrink_to_fit();
  step.limits = limits;
  step.planned_actions = std::ssize(step.plan.actions);
  const std::string fault = check(step.program.problem, step.plan, limits);
  if (!fault.empty()) throw Error("the planner made a plan that its check refuses: " + fault);
  const Bytes staging = staging_bytes(step);
  const Bytes own = std::max(step.plan.arena_bytes, step.plan.variable_bytes + staging);
  const Bytes for_actions = limits.bytes_of_actions(std::ssize(step.plan.actions));
  if (own > limits.bytes - for_actions) {
    plan::Shortfall shortfall;
    shortfall.need_bytes = own + for_actions;
    shortfall.holders = {{"all variables", Tag::Weights, step.plan.variable_bytes},
                         {"one of them in another order, on its way in or out", Tag::Staging, staging}};
    throw DoesNotFit(describe(step.program.problem, shortfall, 0));
  }
  expect_room_for_planning(step.program.problem, step.plan);
  if (arena_bytes_ > limits.bytes - for_actions) return arena_bytes_ + for_actions - limits.bytes;
  arena_bytes_ = std::max(arena_bytes_, own);
  budget_.hold_plans(for_actions);
  if (!stored_) stored_ = step.plan.stored;
  step.file_places = Homes::place_in_file(step.program.problem, step.plan, &file_bytes_);
  hold_arena(step);
  return 0;
}

// Reserves the arena under the tags of the plan with the largest one.
void StepPlanner::hold_arena(const PlannedStep& accepted) {
  const PlannedStep* largest = &accepted;
  for (const PlannedStep& step : steps_)
    if (step.plan.arena_bytes > largest->plan.arena_bytes) largest = &step;
  budget_.hold_arena(arena_bytes_, largest->plan.peak_by_tag);
}

Bytes StepPlanner::room_to_plan() const {
  const MemoryLine& line = budget_.line();
  if (!budget_.covers_process() || line.limit() == MemoryLine::kUnlimited) return MemoryLine::kUnlimited;
  if (is_open_) return line.free();
  return planning_line() - budget_.peak_of_planning(0, leaving_bytes());
}

Bytes StepPlanner::peak_of_planning(Bytes planning_bytes) const {
  return budget_.peak_of_planning(std::max(planning_bytes, kBytesToLowerNode * std::ssize(graph_.nodes())),
                                  leaving_bytes());
}

}  // namespace plimsoll::session
