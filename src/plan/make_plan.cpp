#include "plan/make_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "plan/bound.h"
#include "plan/order.h"
#include "plan/pack.h"
#include "plan/recompute.h"
#include "plan/slots.h"
#include "plan/stays.h"

namespace plimsoll {
namespace {

double cost_ns(const Problem& problem, TaskId task, int64_t samples) {
  return problem.tasks[task].fixed_ns + problem.tasks[task].per_sample_ns * static_cast<double>(samples);
}

// One way to run the step; packed once it is asked for.
struct Candidate {
  std::vector<TaskId> steps;
  double ns = 0;
  Bytes peak_bytes = 0;
  Stays stays{};
  std::vector<PackItem> items{};
  Packing packing{};
};

// Names what is alive at a step, the buffer that moved into a shared place rather than the one that left it.
std::vector<Holder> holders_at(const Problem& problem, const Sizes& sizes, const Candidate& candidate, int32_t step) {
  const Stays& stays = candidate.stays;
  std::vector<Holder> holders;
  std::vector<int32_t> holder_of_slot(stays.slots.size(), -1);
  for (size_t i = 0; i < stays.stays.size(); ++i) {
    const Stay& stay = stays.stays[i];
    if (stay.first_step > step || stay.last_step < step) continue;
    const Buffer& buffer = problem.buffers[stay.buffer];
    if (buffer.kind == BufferKind::Variable)
      holders.push_back({buffer.name, buffer.tag, sizes.buffers[stay.buffer]});
    else if (int32_t& holder = holder_of_slot[stay.slot];
             holder < 0 || stays.stays[holder].first_step < stay.first_step)
      holder = static_cast<int32_t>(i);
  }
  for (const int32_t i : holder_of_slot) {
    if (i < 0) continue;
    const BufferId id = stays.stays[i].buffer;
    holders.push_back({problem.buffers[id].name, problem.buffers[id].tag, sizes.buffers[id]});
  }
  if (step < static_cast<int32_t>(candidate.steps.size())) {
    const TaskId task = candidate.steps[step];
    if (sizes.scratch[task] > 0)
      holders.push_back({"scratch of " + problem.tasks[task].name, Tag::Workspace, sizes.scratch[task]});
  }
  std::stable_sort(holders.begin(), holders.end(), [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  return holders;
}

BytesByTag sum_by_tag(const std::vector<Holder>& holders) {
  BytesByTag by_tag{};
  for (const Holder& holder : holders) by_tag[static_cast<size_t>(holder.tag)] += holder.bytes;
  return by_tag;
}

std::vector<Life> make_lives(const Problem& problem, const Sizes& sizes, const Candidate& candidate) {
  std::vector<Life> lives;
  lives.reserve(candidate.items.size() + problem.buffers.size());
  Bytes variable_offset = 0;
  const Stays& stays = candidate.stays;
  for (const Stay& stay : stays.stays) {
    Life life{stay.buffer, stay.first_step, stay.last_step, variable_offset, sizes.buffers[stay.buffer]};
    if (problem.buffers[stay.buffer].kind == BufferKind::Variable)
      variable_offset += life.bytes;
    else
      life.offset = sizes.variables + candidate.packing.offsets[stay.slot];
    lives.push_back(life);
  }
  for (size_t i = stays.slots.size(); i < candidate.items.size(); ++i) {
    const PackItem& item = candidate.items[i];
    const auto step = static_cast<int32_t>(item.lower);
    lives.push_back({kScratch, step, step, sizes.variables + candidate.packing.offsets[i], item.size});
  }
  std::sort(lives.begin(), lives.end(), [](const Life& a, const Life& b) {
    return std::pair(a.first_step, a.buffer) < std::pair(b.first_step, b.buffer);
  });
  return lives;
}

void require_valid(const Problem& problem, const Limits& limits) {
  require_valid(problem);
  if (limits.batch <= 0) throw Error(fmt::format("a batch of {} samples cannot be planned", limits.batch));
  constexpr double kLargest = 1e18;  // sums of sizes stay far from overflow
  double total = 0;
  for (const Buffer& buffer : problem.buffers)
    total += static_cast<double>(buffer.fixed_bytes) +
             static_cast<double>(buffer.per_sample_bytes) * static_cast<double>(limits.batch);
  for (const Task& task : problem.tasks)
    total += static_cast<double>(task.scratch_fixed_bytes) +
             static_cast<double>(task.scratch_per_sample_bytes) * static_cast<double>(limits.batch);
  if (total > kLargest) throw Error(fmt::format("a batch of {} samples is too large to count", limits.batch));
}

class Planner {
 public:
  Planner(const Problem& problem, const Limits& limits)
      : problem_(problem), limits_(limits), sizes_(measure(problem, limits.batch, limits.batch)) {
    std::vector<TaskId> order(problem.tasks.size());
    std::iota(order.begin(), order.end(), 0);
    unconstrained_bytes_ = make_timeline(problem, sizes_, order, false).peak_bytes;
    if (limits.levers.order) order = choose_order(problem, sizes_, limits.levers.in_place);
    bound_ = find_lower_bound(problem, sizes_, limits.levers.in_place);
    for (const TaskId task : order) unconstrained_ns_ += cost_ns(problem, task, limits.batch);
    const Bytes peak = make_timeline(problem, sizes_, order, limits.levers.in_place).peak_bytes;
    candidates_.push_back({std::move(order), unconstrained_ns_, peak});
  }

  // The fastest of a fixed list of candidates that fits. The list and the way each is packed do not depend on the
  // line: a larger line can choose from all that a smaller one can, so it is never slower, and what it chooses
  // instead is higher than the smaller line.
  std::variant<Plan, Shortfall> run() {
    if (fits(candidates_[0])) return make(candidates_[0]);
    if (limits_.levers.recompute) add_recomputing();
    for (size_t i = 1; i < candidates_.size(); ++i)
      if (fits(candidates_[i])) return make(candidates_[i]);
    return refuse();
  }

 private:
  // Faster ones first; those that are neither faster nor lower than another are left out.
  void add_recomputing() {
    std::vector<Schedule> schedules =
        propose_schedules(problem_, sizes_, candidates_[0].steps, limits_.levers.in_place, limits_.batch, bound_.bytes);
    std::stable_sort(schedules.begin(), schedules.end(), [](const Schedule& a, const Schedule& b) {
      return std::pair(a.extra_ns, a.peak_bytes) < std::pair(b.extra_ns, b.peak_bytes);
    });
    for (Schedule& schedule : schedules) {
      if (schedule.peak_bytes >= candidates_.back().peak_bytes) continue;
      double ns = 0;
      for (const TaskId task : schedule.steps) ns += cost_ns(problem_, task, limits_.batch);
      candidates_.push_back({std::move(schedule.steps), std::max(ns, candidates_.back().ns), schedule.peak_bytes});
    }
  }

  // What is tried does not depend on the line: a short search always, a long one only when the line asks for more,
  // and that one stops where it fits.
  void pack_for(Candidate& candidate, Bytes line) {
    constexpr int64_t kShortSearch = 10;
    if (candidate.items.empty()) {
      candidate.stays = find_stays(problem_, sizes_, candidate.steps, limits_.levers.in_place);
      candidate.items = make_items(sizes_, candidate.stays, candidate.steps);
      candidate.packing = pack(candidate.items, kAlignment, 0, {.nodes = limits_.pack_nodes / kShortSearch});
    }
    const Packing& packing = candidate.packing;
    if (sizes_.variables + packing.height <= line || packing.height == packing.lower_bound) return;
    const Bytes room = std::max<Bytes>(line - sizes_.variables, 0);
    Packing longer = pack(candidate.items, kAlignment, room, {.nodes = limits_.pack_nodes});
    if (longer.height < packing.height) candidate.packing = std::move(longer);
  }

  Bytes arena_bytes(const Candidate& candidate) const { return sizes_.variables + candidate.packing.height; }

  bool fits(Candidate& candidate) {
    if (candidate.peak_bytes > limits_.bytes) return false;
    pack_for(candidate, limits_.bytes);
    return arena_bytes(candidate) <= limits_.bytes;
  }

  Plan make(const Candidate& candidate) const {
    Plan plan;
    plan.arena_bytes = arena_bytes(candidate);
    plan.variable_bytes = sizes_.variables;
    plan.part_samples = {limits_.batch};
    for (const TaskId task : candidate.steps) plan.steps.push_back({.task = task});
    plan.lives = make_lives(problem_, sizes_, candidate);
    plan.predicted_ns = candidate.ns;
    plan.unconstrained_ns = unconstrained_ns_;
    plan.unconstrained_bytes = unconstrained_bytes_;
    plan.live_bytes = candidate.stays.peak_bytes;
    plan.peak_step = candidate.stays.peak_step;
    plan.peak_by_tag = sum_by_tag(holders_at(problem_, sizes_, candidate, std::max(plan.peak_step, 0)));
    plan.lower_bound_bytes = bound_.bytes;
    plan.lower_bound_task = bound_.task;
    if (unconstrained_bytes_ > candidates_[0].peak_bytes)
      plan.decisions.push_back({"order and in place", unconstrained_bytes_ - candidates_[0].peak_bytes, 0});
    for (Decision& decision : describe_reruns(candidate)) plan.decisions.push_back(std::move(decision));
    return plan;
  }

  // One for each task that runs again, under the name of the largest value it makes, the largest first.
  std::vector<Decision> describe_reruns(const Candidate& candidate) const {
    std::vector<int32_t> runs(problem_.tasks.size(), 0);
    for (const TaskId task : candidate.steps) ++runs[task];
    std::vector<Decision> decisions;
    for (TaskId t = 0; t < static_cast<TaskId>(runs.size()); ++t) {
      const std::vector<BufferId>& writes = problem_.tasks[t].writes;
      if (runs[t] < 2 || writes.empty()) continue;
      const BufferId id = *std::max_element(
          writes.begin(), writes.end(), [&](BufferId a, BufferId b) { return sizes_.buffers[a] < sizes_.buffers[b]; });
      decisions.push_back({"recompute " + problem_.buffers[id].name, sizes_.buffers[id],
                           (runs[t] - 1) * cost_ns(problem_, t, limits_.batch)});
    }
    std::stable_sort(decisions.begin(), decisions.end(),
                     [](const Decision& a, const Decision& b) { return a.bytes_saved > b.bytes_saved; });
    return decisions;
  }

  // The lowest of all candidates, each packed as well as it can be: what is named here fits when it is asked for.
  Shortfall refuse() {
    std::vector<Candidate*> by_peak;
    for (Candidate& candidate : candidates_) by_peak.push_back(&candidate);
    std::stable_sort(by_peak.begin(), by_peak.end(),
                     [](const Candidate* a, const Candidate* b) { return a->peak_bytes < b->peak_bytes; });
    const Candidate* lowest = nullptr;
    for (Candidate* candidate : by_peak) {
      if (lowest != nullptr && candidate->peak_bytes >= arena_bytes(*lowest)) break;
      pack_for(*candidate, 0);
      if (lowest == nullptr || arena_bytes(*candidate) < arena_bytes(*lowest)) lowest = candidate;
    }
    const Bytes need = arena_bytes(*lowest);
    const int32_t peak_step = std::max(lowest->stays.peak_step, 0);
    std::vector<Holder> holders = holders_at(problem_, sizes_, *lowest, peak_step);
    const BytesByTag by_tag = sum_by_tag(holders);
    constexpr size_t kLargestHolders = 10;
    holders.resize(std::min(holders.size(), kLargestHolders));
    return Shortfall{.need_bytes = need,
                     .limit_bytes = limits_.bytes,
                     .deficit_bytes = need - limits_.bytes,
                     .tightest_task = lowest->steps.empty() ? -1 : lowest->steps[peak_step],
                     .holders = std::move(holders),
                     .by_tag = by_tag,
                     .lower_bound_bytes = bound_.bytes,
                     .lower_bound_task = bound_.task};
  }

  const Problem& problem_;
  const Limits& limits_;
  const Sizes sizes_;
  Bytes unconstrained_bytes_ = 0;
  double unconstrained_ns_ = 0;
  Bound bound_;
  std::vector<Candidate> candidates_;
};

}  // namespace

std::variant<Plan, Shortfall> make_plan(const Problem& problem, const Limits& limits) {
  require_valid(problem, limits);
  return Planner(problem, limits).run();
}

}  // namespace plimsoll
