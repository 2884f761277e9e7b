#include "plan/check/check.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "plan/check/check_replay.h"

namespace plimsoll::plan {
namespace {

std::string name_of_life(const Problem& problem, const Plan& plan, const Life& life) {
  if (life.buffer != kWorkspace) return problem.buffers[life.buffer].name;
  return "workspace of " + task_of(problem, plan, plan.actions[life.first_action]).name;
}

std::string check_micro_batches(const Plan& plan, const Limits& limits) {
  if (plan.micro_batches.empty()) return "the plan has no micro-batches";
  int64_t total = 0;
  for (const int64_t samples : plan.micro_batches) {
    if (samples <= 0) return fmt::format("a micro-batch has {} samples", samples);
    if (samples > limits.batch - total)
      return fmt::format("the micro-batches hold more than its {} samples", limits.batch);
    total += samples;
  }
  if (total != limits.batch) return fmt::format("the micro-batches hold {} samples of {}", total, limits.batch);
  return "";
}

// Sizes come from files too: none may overflow in what follows.
std::string check_sizes(const Problem& problem, const Limits& limits) {
  constexpr Bytes kLargest = Bytes{1} << 60;
  const auto overflows = [&](Bytes fixed, Bytes per_sample) {
    return fixed > kLargest || per_sample > (kLargest - fixed) / std::max<int64_t>(limits.batch, 1);
  };
  for (const Buffer& buffer : problem.buffers)
    if (overflows(buffer.fixed_bytes, buffer.per_sample_bytes))
      return fmt::format("{} has more bytes than can be counted for {} samples", buffer.name, limits.batch);
  const auto workspace_overflows = [&](const Work& work) {
    return overflows(work.workspace_fixed_bytes, work.workspace_per_sample_bytes);
  };
  for (const Task& task : problem.tasks)
    if (workspace_overflows(task) || std::any_of(task.variants.begin(), task.variants.end(), workspace_overflows))
      return fmt::format("the workspace of {} has more bytes than can be counted for {} samples", task.name,
                         limits.batch);
  return "";
}

// Each transfer moves one buffer, to the scratch file or back.
std::string check_transfers(const Problem& problem, const Plan& plan) {
  for (size_t i = 0; i < plan.transfers.size(); ++i) {
    const Task& task = plan.transfers[i];
    if (task.lane != Lane::Disk) return fmt::format("transfer {} is on a lane that is not the disk's", i);
    if (task.reads.size() + task.writes.size() != 1 || !task.updates.empty())
      return fmt::format("transfer {} moves more or less than one buffer", i);
    if (moved_by(task) < 0 || moved_by(task) >= static_cast<BufferId>(problem.buffers.size()))
      return fmt::format("transfer {} moves buffer {}, which does not exist", i, moved_by(task));
    if (problem.buffers[moved_by(task)].space != kHost)
      return fmt::format("{} moves what is not in the host's memory", task.name);
    if (task.workspace_fixed_bytes != 0 || task.workspace_per_sample_bytes != 0)
      return fmt::format("{} has workspace, but only moves", task.name);
    if (!task.variants.empty()) return fmt::format("{} has variants, but only moves", task.name);
    if (!(task.fixed_ns >= 0) || !std::isfinite(task.fixed_ns) || task.per_sample_ns != 0)
      return fmt::format("{} is said to take {} ns", task.name, task.fixed_ns);
  }
  return "";
}

std::string check_actions(const Problem& problem, const Plan& plan) {
  const auto tasks = static_cast<TaskId>(problem.tasks.size() + plan.transfers.size());
  for (size_t s = 0; s < plan.actions.size(); ++s) {
    const Action& action = plan.actions[s];
    if (action.micro_batch < 0 || action.micro_batch >= static_cast<int32_t>(plan.micro_batches.size()))
      return fmt::format("action {} runs micro-batch {}, which does not exist", s, action.micro_batch);
    if (action.task < 0 || action.task >= tasks)
      return fmt::format("action {} runs task {}, which does not exist", s, action.task);
    const Task& task = task_of(problem, plan, action);
    if (action.variant < -1 || action.variant >= static_cast<int32_t>(task.variants.size()))
      return fmt::format("action {} runs variant {} of {}, which does not exist", s, action.variant, task.name);
  }
  return "";
}

// Each space has an arena of its own, no larger than it needs to be and than is allowed.
std::string check_arenas(const Problem& problem, const Plan& plan, const Limits& limits) {
  if (plan.more_arenas.size() + 1 != problem.spaces.size())
    return fmt::format("there are {} arenas for {} spaces", plan.more_arenas.size() + 1, problem.spaces.size());
  std::vector<Bytes> top(problem.spaces.size(), 0);
  top[kHost] = plan.variable_bytes;
  for (const Life& life : plan.lives) {
    Bytes& highest = top[life.buffer == kWorkspace ? kHost : problem.buffers[life.buffer].space];
    highest = std::max(highest, life.offset + life.bytes);
  }
  for (SpaceId space = 0; space < std::ssize(problem.spaces); ++space) {
    const std::string name = space == kHost ? "the arena" : "the arena in " + problem.spaces[space];
    if (plan.arena_of(space) != top[space])
      return fmt::format("{} is {} bytes but its contents end at {}", name, plan.arena_of(space), top[space]);
    if (space != kHost && space > std::ssize(limits.more_spaces))
      return fmt::format("nothing says how many bytes there are in {}", problem.spaces[space]);
    const Bytes most = space == kHost ? limits.bytes : limits.more_spaces[space - 1];
    if (plan.arena_of(space) > most)
      return fmt::format("{} of {} bytes is over the line of {}", name, plan.arena_of(space), most);
  }
  const Bytes for_steps = limits.bytes_of_actions(static_cast<int64_t>(plan.actions.size()));
  if (plan.arena_bytes > limits.bytes - for_steps)
    return fmt::format("the arena of {} bytes with {} for {} actions is over the line of {}", plan.arena_bytes,
                       for_steps, plan.actions.size(), limits.bytes);
  return "";
}

std::string check_lives(const Problem& problem, const Plan& plan, const Limits& limits) {
  const int32_t last_action = std::max<int32_t>(static_cast<int32_t>(plan.actions.size()) - 1, 0);
  const int64_t samples = *std::max_element(plan.micro_batches.begin(), plan.micro_batches.end());
  std::vector<char> has_workspace(plan.actions.size(), 0);
  for (SpaceId space = 0; space <= std::ssize(plan.more_arenas); ++space)
    if (plan.arena_of(space) < 0) return fmt::format("the arena has {} bytes", plan.arena_of(space));
  for (size_t i = 0; i < plan.lives.size(); ++i) {
    const Life& life = plan.lives[i];
    if (life.buffer < kWorkspace || life.buffer >= static_cast<BufferId>(problem.buffers.size()))
      return fmt::format("life {} is of buffer {}, which does not exist", i, life.buffer);
    if (life.first_action < 0 || life.last_action > last_action || life.first_action > life.last_action)
      return fmt::format("life {} spans actions {}-{} of 0-{}", i, life.first_action, life.last_action, last_action);
    Bytes wanted = 0;
    SpaceId space = kHost;
    if (life.buffer == kWorkspace) {
      if (plan.actions.empty()) return "there is workspace but no action";
      const Action& action = plan.actions[life.first_action];
      if (life.first_action != life.last_action) return fmt::format("workspace outlives action {}", life.first_action);
      if (is_transfer(problem, action))
        return fmt::format("action {} has workspace but runs nothing", life.first_action);
      if (has_workspace[life.first_action]++) return fmt::format("action {} has workspace twice", life.first_action);
      wanted = workspace_bytes(work_of(problem, plan, action), plan.micro_batches[action.micro_batch]);
    } else {
      const Buffer& buffer = problem.buffers[life.buffer];
      space = buffer.space;
      if (space > std::ssize(plan.more_arenas))
        return fmt::format("{} is in {}, which has no arena", buffer.name, problem.spaces[space]);
      wanted = placed_bytes(buffer, holds_whole_batch(buffer) ? limits.batch : samples);
    }
    const std::string name = name_of_life(problem, plan, life);
    if (life.bytes != wanted) return fmt::format("{} needs {} bytes but has {}", name, wanted, life.bytes);
    if (life.offset < 0 || life.offset % kAlignment != 0)
      return fmt::format("{} at byte {} is not aligned to {}", name, life.offset, kAlignment);
    if (life.offset > plan.arena_of(space) - life.bytes)
      return fmt::format("{} ends past the arena of {} bytes", name, plan.arena_of(space));
  }
  for (size_t s = 0; s < plan.actions.size(); ++s)
    if (!has_workspace[s] &&
        workspace_bytes(work_of(problem, plan, plan.actions[s]), plan.micro_batches[plan.actions[s].micro_batch]) > 0)
      return fmt::format("{} has no workspace at action {}", task_of(problem, plan, plan.actions[s]).name, s);
  return check_arenas(problem, plan, limits);
}

std::string check_variables(const Problem& problem, const Plan& plan) {
  std::vector<bool> is_stored(problem.buffers.size(), false);
  for (const BufferId id : plan.stored) {
    if (id < 0 || id >= static_cast<BufferId>(problem.buffers.size()) ||
        problem.buffers[id].kind != BufferKind::Variable || problem.buffers[id].space != kHost)
      return fmt::format("buffer {} is stored between steps but is no variable", id);
    is_stored[id] = true;
  }
  const int32_t last_action = std::max<int32_t>(static_cast<int32_t>(plan.actions.size()) - 1, 0);
  std::vector<int32_t> life_of(problem.buffers.size(), -1);
  for (size_t i = 0; i < plan.lives.size(); ++i)
    if (plan.lives[i].buffer != kWorkspace) life_of[plan.lives[i].buffer] = static_cast<int32_t>(i);
  Bytes offset = 0;
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    const Buffer& buffer = problem.buffers[b];
    if (buffer.kind != BufferKind::Variable || buffer.space != kHost || is_stored[b]) continue;
    if (life_of[b] < 0) return fmt::format("variable {} has no place", buffer.name);
    const Life& life = plan.lives[life_of[b]];
    if (life.offset != offset)
      return fmt::format("variable {} lies at byte {}, not {}", buffer.name, life.offset, offset);
    if (life.first_action != 0 || life.last_action != last_action)
      return fmt::format("variable {} lives only from action {} to {}", buffer.name, life.first_action,
                         life.last_action);
    offset += life.bytes;
  }
  if (plan.variable_bytes != offset) return fmt::format("variables take {} bytes, not {}", offset, plan.variable_bytes);
  return "";
}

// The scratch file has room for each buffer that is ever saved, or is stored there between steps.
std::string check_disk(const Problem& problem, const Plan& plan, const Limits& limits) {
  std::vector<bool> is_on_disk(problem.buffers.size(), false);
  for (const BufferId id : plan.stored) is_on_disk[id] = true;
  for (const Task& transfer : plan.transfers) is_on_disk[moved_by(transfer)] = true;
  Bytes left = limits.disk_bytes;
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    if (!is_on_disk[b]) continue;
    const Bytes bytes = placed_bytes(problem.buffers[b], limits.batch);
    if (bytes > left)
      return fmt::format("{} does not fit in a scratch file of {} bytes", problem.buffers[b].name, limits.disk_bytes);
    left -= bytes;
  }
  return "";
}

// Lives must be sorted, because an executor binds places in one pass over actions and lives.
std::string check_order(const Problem& problem, const Plan& plan) {
  for (size_t i = 1; i < plan.lives.size(); ++i)
    if (plan.lives[i].first_action < plan.lives[i - 1].first_action)
      return fmt::format("the life of {} at action {} is listed after one that starts later",
                         name_of_life(problem, plan, plan.lives[i]), plan.lives[i].first_action);
  return "";
}

// Fields that only reports use: they must at least be in range, because readers index and print them.
std::string check_report(const Problem& problem, const Plan& plan) {
  if (plan.peak_action < -1 || plan.peak_action >= std::max<int64_t>(static_cast<int64_t>(plan.actions.size()), 1))
    return fmt::format("the peak is at action {}, which does not exist", plan.peak_action);
  if (plan.live_bytes < 0 || plan.live_bytes > plan.arena_bytes)
    return fmt::format("{} bytes are said to live in an arena of {}", plan.live_bytes, plan.arena_bytes);
  Bytes left = plan.live_bytes;
  for (const Bytes bytes : plan.peak_by_tag) {
    if (bytes < 0 || bytes > left) return fmt::format("the tags at the peak do not add up to {}", plan.live_bytes);
    left -= bytes;
  }
  if (left != 0) return fmt::format("the tags at the peak do not add up to {}", plan.live_bytes);
  if (plan.lower_bound_task < -1 || plan.lower_bound_task >= static_cast<TaskId>(problem.tasks.size()))
    return fmt::format("the lower bound is of task {}, which does not exist", plan.lower_bound_task);
  if (plan.lower_bound_bytes < 0 || plan.lower_bound_bytes > plan.arena_bytes)
    return fmt::format("the lower bound of {} bytes is over the arena of {}", plan.lower_bound_bytes, plan.arena_bytes);
  if (plan.unconstrained_bytes < 0) return fmt::format("{} bytes without a line", plan.unconstrained_bytes);
  if (plan.next_faster_bytes < 0) return fmt::format("{} bytes of the next faster plan", plan.next_faster_bytes);
  for (const double ns : {plan.predicted_ns, plan.unconstrained_ns})
    if (!(ns >= 0) || !std::isfinite(ns)) return fmt::format("a step is said to take {} ns", ns);
  if (plan.exactness > Exactness::WithinTolerance) return "the exactness of the results is unknown";
  return "";
}

// Lanes run concurrently, the tasks of one lane one after another: no step is shorter than its busiest lane.
std::string check_time(const Problem& problem, const Plan& plan) {
  for (size_t i = 0; i < kLaneCount; ++i) {
    constexpr double kRounding = 1e-6;  // sums of the same numbers in another order
    const auto lane = static_cast<Lane>(i);
    const double busy = busy_ns(problem, plan, lane);
    if (plan.predicted_ns < busy * (1 - kRounding))
      return fmt::format("a step is said to take {} ns, but its {} lane alone is busy for {}", plan.predicted_ns,
                         name_of(lane), busy);
  }
  return "";
}

// A micro-batch addresses its rows of a whole batch: its place differs between micro-batches.
bool moves_with_micro_batch(const Problem& problem, const Action& action, BufferId id) {
  return action.micro_batch > 0 && holds_whole_batch(problem.buffers[id]);
}

// May `after`, which starts at this action, take the place of `before`, which ends at it?
bool may_take_place(const Problem& problem, const Plan& plan, const Life& before, const Life& after) {
  if (before.buffer == kWorkspace || after.buffer == kWorkspace || before.offset != after.offset) return false;
  const int32_t s = after.first_action;
  if (before.last_action != s || s >= static_cast<int32_t>(plan.actions.size())) return false;
  const Action& action = plan.actions[s];
  const BufferKind kind = problem.buffers[before.buffer].kind;
  if (kind == BufferKind::Variable || kind == BufferKind::Output) return false;
  if (moves_with_micro_batch(problem, action, before.buffer) || moves_with_micro_batch(problem, action, after.buffer))
    return false;
  const Work& work = work_of(problem, plan, action);
  if (std::count(work.updates.begin(), work.updates.end(), before.buffer) != 0) return false;
  if (std::count(work.reads.begin(), work.reads.end(), before.buffer) != 1) return false;
  return std::any_of(work.may_share.begin(), work.may_share.end(), [&](const InPlace& pair) {
    return work.reads[pair.read] == before.buffer && work.writes[pair.write] == after.buffer;
  });
}

// Walks through time with the occupied ranges sorted by offset: a life that starts can only hit its neighbours. All
// lives are of one space.
std::string check_overlaps(const Problem& problem, const Plan& plan, const std::vector<int32_t>& by_start) {
  struct Range {
    Bytes end;
    int32_t life;
  };
  std::map<Bytes, Range> occupied;
  std::vector<int32_t> by_end(by_start);
  std::sort(by_end.begin(), by_end.end(),
            [&](int32_t a, int32_t b) { return plan.lives[a].last_action < plan.lives[b].last_action; });
  std::vector<int32_t> shared;  // lives whose range still covers the larger value they took the place of
  size_t start = 0, end = 0;
  while (start < by_start.size()) {
    const int32_t s = plan.lives[by_start[start]].first_action;
    for (const int32_t i : shared) {
      const auto at = occupied.find(plan.lives[i].offset);
      if (at != occupied.end() && at->second.life == i) at->second.end = plan.lives[i].offset + plan.lives[i].bytes;
    }
    shared.clear();
    for (; end < by_end.size() && plan.lives[by_end[end]].last_action < s; ++end) {
      const auto at = occupied.find(plan.lives[by_end[end]].offset);
      if (at != occupied.end() && at->second.life == by_end[end]) occupied.erase(at);
    }
    for (; start < by_start.size() && plan.lives[by_start[start]].first_action == s; ++start) {
      const int32_t i = by_start[start];
      const Life& life = plan.lives[i];
      if (life.bytes == 0) continue;
      Bytes life_end = life.offset + life.bytes;
      auto next = occupied.lower_bound(life.offset);
      if (next != occupied.end() && may_take_place(problem, plan, plan.lives[next->second.life], life)) {
        life_end = std::max(life_end, next->second.end);
        next = occupied.erase(next);
        shared.push_back(i);
      }
      const auto hit = [&](const Range& range) {
        const Life& other = plan.lives[range.life];
        return fmt::format("{} overlaps {} at action {} (bytes {}-{})", name_of_life(problem, plan, life),
                           name_of_life(problem, plan, other), s, std::max(life.offset, other.offset),
                           std::min(life_end, range.end) - 1);
      };
      if (next != occupied.end() && next->first < life_end) return hit(next->second);
      if (next != occupied.begin() && std::prev(next)->second.end > life.offset) return hit(std::prev(next)->second);
      occupied.emplace(life.offset, Range{life_end, i});
    }
  }
  return "";
}

}  // namespace

std::string check(const Problem& problem, const Plan& plan, const Limits& limits) {
  std::string fault = check_micro_batches(plan, limits);
  if (fault.empty()) fault = check_sizes(problem, limits);
  if (fault.empty()) fault = check_transfers(problem, plan);
  if (fault.empty()) fault = check_actions(problem, plan);
  if (fault.empty()) fault = check_lives(problem, plan, limits);
  if (fault.empty()) fault = check_variables(problem, plan);
  if (fault.empty()) fault = check_disk(problem, plan, limits);
  if (fault.empty()) fault = check_report(problem, plan);
  if (!fault.empty()) return fault;
  std::vector<int32_t> by_start(plan.lives.size());
  std::iota(by_start.begin(), by_start.end(), 0);
  // Inputs are there before action 0, so their lives come before those that overwrite them in place in action 0.
  const auto start = [&](int32_t i) {
    const Life& life = plan.lives[i];
    return std::pair(life.first_action,
                     life.buffer == kWorkspace || problem.buffers[life.buffer].kind != BufferKind::Input);
  };
  std::stable_sort(by_start.begin(), by_start.end(), [&](int32_t a, int32_t b) { return start(a) < start(b); });
  for (SpaceId space = 0; space < std::ssize(problem.spaces) && fault.empty(); ++space) {
    std::vector<int32_t> of_space;
    std::copy_if(by_start.begin(), by_start.end(), std::back_inserter(of_space), [&](int32_t i) {
      const BufferId id = plan.lives[i].buffer;
      return (id == kWorkspace ? kHost : problem.buffers[id].space) == space;
    });
    fault = check_overlaps(problem, plan, of_space);
  }
  if (fault.empty()) fault = replay_values(problem, plan, by_start);
  if (fault.empty()) fault = check_order(problem, plan);
  return fault.empty() ? check_time(problem, plan) : fault;
}

}  // namespace plimsoll::plan
