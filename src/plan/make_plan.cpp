#include "plan/make_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "plan/order.h"
#include "plan/pack.h"
#include "plan/slots.h"

namespace plimsoll {
namespace {

struct Bound {
  Bytes bytes = 0;
  TaskId task = -1;
};

// Optimistic: every write takes the largest place that it ever may.
Bytes most_shared(const Problem& problem, const Sizes& sizes, const Task& task) {
  Bytes bytes = 0;
  for (int32_t w = 0; w < static_cast<int32_t>(task.writes.size()); ++w) {
    Bytes most = 0;
    for (const InPlace& pair : task.may_share) {
      const BufferId from = task.reads[pair.read];
      const BufferKind kind = problem.buffers[from].kind;
      if (pair.write == w && kind != BufferKind::Variable && kind != BufferKind::Output)
        most = std::max(most, std::min(sizes.buffers[from], sizes.buffers[task.writes[w]]));
    }
    bytes += most;
  }
  return bytes;
}

// Whatever the order, a task needs its own buffers at once, beside the variables.
Bound find_lower_bound(const Problem& problem, const Sizes& sizes, bool in_place) {
  Bound bound{sizes.variables, -1};
  std::vector<TaskId> counted(problem.buffers.size(), -1);
  for (TaskId t = 0; t < static_cast<TaskId>(problem.tasks.size()); ++t) {
    const Task& task = problem.tasks[t];
    Bytes bytes = sizes.variables + sizes.scratch[t];
    for (const auto* list : {&task.reads, &task.writes, &task.updates})
      for (const BufferId id : *list)
        if (problem.buffers[id].kind != BufferKind::Variable && std::exchange(counted[id], t) != t)
          bytes += sizes.buffers[id];
    if (in_place) bytes -= most_shared(problem, sizes, task);
    if (bytes > bound.bytes) bound = {bytes, t};
  }
  Bytes inputs = sizes.variables, outputs = sizes.variables;
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    if (problem.buffers[b].kind == BufferKind::Input) inputs += sizes.buffers[b];
    if (problem.buffers[b].kind == BufferKind::Output) outputs += sizes.buffers[b];
  }
  if (std::max(inputs, outputs) > bound.bytes) bound = {std::max(inputs, outputs), -1};
  return bound;
}

double cost_ns(const Problem& problem, int64_t samples) {
  double ns = 0;
  for (const Task& task : problem.tasks) ns += task.fixed_ns + task.per_sample_ns * static_cast<double>(samples);
  return ns;
}

// Names what is alive at a step, the buffer that moved into a shared place rather than the one that left it.
std::vector<Holder> holders_at(const Problem& problem, const Sizes& sizes, const Timeline& timeline,
                               const std::vector<TaskId>& order, int32_t step) {
  std::vector<Holder> holders;
  std::vector<BufferId> holder_of_slot(timeline.slots.size(), -1);
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    if (timeline.first_step[b] < 0 || timeline.first_step[b] > step || timeline.last_step[b] < step) continue;
    if (problem.buffers[b].kind == BufferKind::Variable) {
      holders.push_back({problem.buffers[b].name, problem.buffers[b].tag, sizes.buffers[b]});
    } else {
      BufferId& holder = holder_of_slot[timeline.slot_of[b]];
      if (holder < 0 || timeline.first_step[holder] < timeline.first_step[b]) holder = static_cast<BufferId>(b);
    }
  }
  for (const BufferId id : holder_of_slot)
    if (id >= 0) holders.push_back({problem.buffers[id].name, problem.buffers[id].tag, sizes.buffers[id]});
  if (step < static_cast<int32_t>(order.size()) && sizes.scratch[order[step]] > 0)
    holders.push_back({"scratch of " + problem.tasks[order[step]].name, Tag::Workspace, sizes.scratch[order[step]]});
  std::stable_sort(holders.begin(), holders.end(), [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  return holders;
}

BytesByTag sum_by_tag(const std::vector<Holder>& holders) {
  BytesByTag by_tag{};
  for (const Holder& holder : holders) by_tag[static_cast<size_t>(holder.tag)] += holder.bytes;
  return by_tag;
}

// Slots first, then the scratch of each step that has some.
std::vector<PackItem> make_items(const Sizes& sizes, const Timeline& timeline, const std::vector<TaskId>& order) {
  std::vector<PackItem> items;
  items.reserve(timeline.slots.size() + order.size());
  for (const Slot& slot : timeline.slots) items.push_back({slot.first_step, slot.last_step + 1, slot.bytes});
  for (size_t s = 0; s < order.size(); ++s)
    if (const Bytes bytes = sizes.scratch[order[s]]; bytes > 0)
      items.push_back({static_cast<int64_t>(s), static_cast<int64_t>(s) + 1, bytes});
  return items;
}

std::vector<Life> make_lives(const Problem& problem, const Sizes& sizes, const Timeline& timeline,
                             const std::vector<PackItem>& items, const std::vector<Bytes>& offsets) {
  std::vector<Life> lives;
  lives.reserve(problem.buffers.size() + items.size());
  Bytes variable_offset = 0;
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    if (timeline.first_step[b] < 0) continue;
    Life life{static_cast<BufferId>(b), timeline.first_step[b], timeline.last_step[b], variable_offset,
              sizes.buffers[b]};
    if (problem.buffers[b].kind == BufferKind::Variable)
      variable_offset += life.bytes;
    else
      life.offset = sizes.variables + offsets[timeline.slot_of[b]];
    lives.push_back(life);
  }
  for (size_t i = timeline.slots.size(); i < items.size(); ++i) {
    const auto step = static_cast<int32_t>(items[i].lower);
    lives.push_back({kScratch, step, step, sizes.variables + offsets[i], items[i].size});
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

}  // namespace

std::variant<Plan, Shortfall> make_plan(const Problem& problem, const Limits& limits) {
  require_valid(problem, limits);
  const Sizes sizes = measure(problem, limits.batch, limits.batch);
  std::vector<TaskId> order(problem.tasks.size());
  std::iota(order.begin(), order.end(), 0);
  const Bytes unconstrained_bytes = make_timeline(problem, sizes, order, false).peak_bytes;
  if (limits.levers.order) order = choose_order(problem, sizes, limits.levers.in_place);
  const Timeline timeline = make_timeline(problem, sizes, order, limits.levers.in_place);

  // What is tried does not depend on the line: a short search always, a long one only when the line asks for more,
  // and that one stops where it fits. So peaks fall with the line.
  const std::vector<PackItem> items = make_items(sizes, timeline, order);
  constexpr int64_t kShortSearch = 10;
  Packing packing = pack(items, kAlignment, 0, {.nodes = limits.pack_nodes / kShortSearch});
  if (sizes.variables + packing.height > limits.bytes && packing.height > packing.lower_bound) {
    const Bytes room = std::max<Bytes>(limits.bytes - sizes.variables, 0);
    Packing longer = pack(items, kAlignment, room, {.nodes = limits.pack_nodes});
    if (longer.height < packing.height) packing = std::move(longer);
  }
  const Bytes arena_bytes = sizes.variables + packing.height;
  const Bound bound = find_lower_bound(problem, sizes, limits.levers.in_place);
  const int32_t peak_step = std::max(timeline.peak_step, 0);
  std::vector<Holder> holders = holders_at(problem, sizes, timeline, order, peak_step);
  const BytesByTag by_tag = sum_by_tag(holders);
  if (arena_bytes > limits.bytes) {
    constexpr size_t kLargestHolders = 10;
    holders.resize(std::min(holders.size(), kLargestHolders));
    return Shortfall{.need_bytes = arena_bytes,
                     .limit_bytes = limits.bytes,
                     .deficit_bytes = arena_bytes - limits.bytes,
                     .tightest_task = order.empty() ? -1 : order[peak_step],
                     .holders = std::move(holders),
                     .by_tag = by_tag,
                     .lower_bound_bytes = bound.bytes,
                     .lower_bound_task = bound.task};
  }

  Plan plan;
  plan.arena_bytes = arena_bytes;
  plan.variable_bytes = sizes.variables;
  plan.part_samples = {limits.batch};
  for (const TaskId task : order) plan.steps.push_back({.task = task});
  plan.lives = make_lives(problem, sizes, timeline, items, packing.offsets);
  plan.predicted_ns = plan.unconstrained_ns = cost_ns(problem, limits.batch);
  plan.unconstrained_bytes = unconstrained_bytes;
  plan.live_bytes = timeline.peak_bytes;
  plan.peak_step = timeline.peak_step;
  plan.peak_by_tag = by_tag;
  plan.lower_bound_bytes = bound.bytes;
  plan.lower_bound_task = bound.task;
  if (unconstrained_bytes > timeline.peak_bytes)
    plan.decisions.push_back({"order and in place", unconstrained_bytes - timeline.peak_bytes, 0});
  return plan;
}

}  // namespace plimsoll
