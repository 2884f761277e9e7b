#include "plan/search/relief.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace plimsoll::plan {
namespace {

constexpr size_t kMoments = 8;  // one for each of so many stretches of the step: the highest in it

// A lower bound of what a task itself touches: every write that may be in place takes no bytes.
Bytes own_bytes(const Problem& problem, const Sizes& sizes, TaskId id, bool in_place) {
  const Task& task = problem.tasks[id];
  std::vector<BufferId> own;
  for (const auto* list : {&task.reads, &task.writes, &task.updates})
    for (const BufferId b : *list)
      if (problem.buffers[b].kind != BufferKind::Variable) own.push_back(b);
  std::sort(own.begin(), own.end());
  own.erase(std::unique(own.begin(), own.end()), own.end());
  Bytes bytes = sizes.workspace[id];
  for (const BufferId b : own) bytes += sizes.buffers[b];
  for (const InPlace& pair : task.may_share)
    if (in_place && problem.buffers[task.writes[pair.write]].kind != BufferKind::Variable)
      bytes -= sizes.buffers[task.writes[pair.write]];
  return std::max<Bytes>(bytes, 0);
}

// Where each temporary is first and last used, and which task could bring it back.
struct Lives {
  std::vector<int32_t> first, last;
  std::vector<TaskId> maker;
};

Lives find_lives(const Problem& problem, const std::vector<double>& ns) {
  const size_t buffers = problem.buffers.size();
  Lives lives{std::vector<int32_t>(buffers, -1), std::vector<int32_t>(buffers, -1), std::vector<TaskId>(buffers, -1)};
  for (TaskId t = 0; t < static_cast<TaskId>(problem.tasks.size()); ++t) {
    const Task& task = problem.tasks[t];
    for (const auto* list : {&task.reads, &task.writes, &task.updates})
      for (const BufferId id : *list) {
        if (problem.buffers[id].kind != BufferKind::Temporary) continue;
        if (lives.first[id] < 0) lives.first[id] = t;
        lives.last[id] = t;
        // Of several writers the cheapest counts, so that the result stays a lower bound.
        TaskId& maker = lives.maker[id];
        if (list == &task.writes && task.recomputable && (maker < 0 || ns[t] < ns[maker])) maker = t;
      }
  }
  return lives;
}

// The tasks at which most is alive, one of each stretch.
std::vector<TaskId> find_high_tasks(const Problem& problem, const Sizes& sizes, const Lives& lives) {
  std::vector<Bytes> alive(problem.tasks.size() + 1, 0);
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    if (lives.first[b] < 0) continue;
    alive[lives.first[b]] += sizes.buffers[b];
    alive[lives.last[b] + 1] -= sizes.buffers[b];
  }
  std::partial_sum(alive.begin(), alive.end(), alive.begin());
  std::vector<TaskId> tasks;
  const size_t stretch = (problem.tasks.size() + kMoments - 1) / kMoments;
  for (size_t from = 0; from < problem.tasks.size(); from += stretch) {
    const auto first = alive.begin() + static_cast<std::ptrdiff_t>(from);
    const auto end = alive.begin() + static_cast<std::ptrdiff_t>(std::min(from + stretch, problem.tasks.size()));
    tasks.push_back(static_cast<TaskId>(std::max_element(first, end) - alive.begin()));
  }
  return tasks;
}

bool uses(const Task& task, BufferId id) {
  const auto has = [id](const std::vector<BufferId>& list) {
    return std::find(list.begin(), list.end(), id) != list.end();
  };
  return has(task.reads) || has(task.writes) || has(task.updates);
}

}  // namespace

Relief::Relief(const Problem& problem, const Sizes& sizes, std::vector<double> ns, bool in_place) : ns_(std::move(ns)) {
  const Lives lives = find_lives(problem, ns_);
  for (const TaskId task : find_high_tasks(problem, sizes, lives)) {
    Moment moment{.bytes = sizes.variables + own_bytes(problem, sizes, task, in_place), .waiting = {}};
    std::vector<Bytes> by_maker(problem.tasks.size(), 0);  // what one task makes comes back together
    for (BufferId id = 0; id < static_cast<BufferId>(problem.buffers.size()); ++id) {
      if (lives.first[id] >= task || lives.last[id] <= task || uses(problem.tasks[task], id)) continue;
      moment.bytes += sizes.buffers[id];
      if (lives.maker[id] >= 0) by_maker[lives.maker[id]] += sizes.buffers[id];
    }
    for (TaskId maker = 0; maker < static_cast<TaskId>(by_maker.size()); ++maker)
      if (by_maker[maker] > 0) moment.waiting.push_back({maker, by_maker[maker]});
    // The cheapest for its bytes first.
    std::stable_sort(moment.waiting.begin(), moment.waiting.end(), [&](const Waiting& a, const Waiting& b) {
      return ns_[a.maker] * static_cast<double>(b.bytes) < ns_[b.maker] * static_cast<double>(a.bytes);
    });
    moments_.push_back(std::move(moment));
  }
}

double Relief::least_ns(Bytes line) const {
  double least = 0;
  for (const Moment& moment : moments_) least = std::max(least, least_ns(moment, line));
  return least;
}

// A fractional knapsack: a part of the last value counts as dropped, so no choice of whole values is cheaper.
double Relief::least_ns(const Moment& moment, Bytes line) const {
  auto over = static_cast<double>(moment.bytes - line);
  double ns = 0;
  for (const Waiting& value : moment.waiting) {
    if (over <= 0) break;
    const double share = std::min(1.0, over / static_cast<double>(value.bytes));
    ns += share * ns_[value.maker];
    over -= static_cast<double>(value.bytes);
  }
  return ns;
}

}  // namespace plimsoll::plan
