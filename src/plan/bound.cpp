#include "plan/bound.h"

#include <algorithm>
#include <queue>
#include <set>
#include <utility>

#include "plan/search/order.h"

namespace plimsoll::plan {
namespace {

using Values = std::vector<BufferId>;  // sorted

void insert(Values& values, BufferId id) {
  const auto at = std::lower_bound(values.begin(), values.end(), id);
  if (at == values.end() || *at != id) values.insert(at, id);
}

bool contains(const Values& values, BufferId id) { return std::binary_search(values.begin(), values.end(), id); }

// Inputs can't be recomputed. An input that a task or one of its successors reads is alive from the start until that
// task first runs: its reader first runs later, or is the task itself.
class AwaitedInputs {
 public:
  AwaitedInputs(const Problem& problem, const Sizes& sizes, const Precedence& precedence)
      : awaited_(problem.tasks.size()), lasting_(problem.tasks.size()) {
    std::vector<bool> is_changed(problem.buffers.size(), false);
    for (const Task& task : problem.tasks)
      for (const auto* list : {&task.writes, &task.updates})
        for (const BufferId id : *list) is_changed[id] = true;
    Values inputs;
    for (BufferId id = 0; id < static_cast<BufferId>(problem.buffers.size()); ++id)
      if (problem.buffers[id].kind == BufferKind::Input && !is_changed[id] && sizes.buffers[id] > 0)
        inputs.push_back(id);
    constexpr size_t kMost = 16;  // each costs a pass over the tasks
    std::stable_sort(inputs.begin(), inputs.end(),
                     [&](BufferId a, BufferId b) { return sizes.buffers[a] > sizes.buffers[b]; });
    inputs.resize(std::min(inputs.size(), kMost));
    std::sort(inputs.begin(), inputs.end());
    for (const BufferId id : inputs) mark(problem, precedence, id);
  }

  const Values& at(TaskId task) const { return awaited_[task]; }
  const Values& after(TaskId task) const { return lasting_[task]; }  // those that a successor reads

 private:
  void mark(const Problem& problem, const Precedence& precedence, BufferId id) {
    std::vector<bool> is_awaited(awaited_.size(), false);
    for (auto t = static_cast<TaskId>(awaited_.size()) - 1; t >= 0; --t) {
      const Values& reads = problem.tasks[t].reads;
      bool is_lasting = false;
      for (int32_t k = precedence.first_successor[t]; k < precedence.first_successor[t + 1] && !is_lasting; ++k)
        is_lasting = is_awaited[precedence.successors[k]];
      is_awaited[t] = is_lasting || std::find(reads.begin(), reads.end(), id) != reads.end();
      if (is_awaited[t]) awaited_[t].push_back(id);
      if (is_lasting) lasting_[t].push_back(id);
    }
  }

  std::vector<Values> awaited_, lasting_;  // by task
};

// By buffer: the only task that writes it, kNone or kMany.
constexpr TaskId kNone = -1, kMany = -2;

std::vector<TaskId> find_makers(const Problem& problem) {
  std::vector<TaskId> makers(problem.buffers.size(), kNone);
  for (TaskId t = 0; t < static_cast<TaskId>(problem.tasks.size()); ++t)
    for (const BufferId id : problem.tasks[t].writes) makers[id] = makers[id] == kNone ? t : kMany;
  return makers;
}

// A value whose task may run only once stays alive from there to its last reader, an output to the end. So it is alive
// when `task` first runs, if `task` comes after its maker and before a reader in every order.
Values find_kept(const Problem& problem, const Precedence& precedence, const std::vector<TaskId>& makers, TaskId task) {
  const auto tasks = static_cast<TaskId>(problem.tasks.size());
  std::vector<bool> is_before(tasks, false), is_after(tasks, false), is_needed(problem.buffers.size(), false);
  is_before[task] = is_after[task] = true;
  for (TaskId t = task; t >= 0; --t)
    for (int32_t k = precedence.first_predecessor[t]; is_before[t] && k < precedence.first_predecessor[t + 1]; ++k)
      is_before[precedence.predecessors[k]] = true;
  for (TaskId t = task; t < tasks; ++t) {
    for (int32_t k = precedence.first_successor[t]; is_after[t] && k < precedence.first_successor[t + 1]; ++k)
      is_after[precedence.successors[k]] = true;
    if (!is_after[t] || t == task) continue;
    for (const auto* list : {&problem.tasks[t].reads, &problem.tasks[t].updates})
      for (const BufferId id : *list) is_needed[id] = true;
  }
  Values kept;
  for (BufferId id = 0; id < static_cast<BufferId>(problem.buffers.size()); ++id) {
    const BufferKind kind = problem.buffers[id].kind;
    if (kind != BufferKind::Output && (kind != BufferKind::Temporary || !is_needed[id])) continue;
    const TaskId maker = makers[id];
    if (maker >= 0 && maker != task && is_before[maker] && !problem.tasks[maker].recomputable) kept.push_back(id);
  }
  return kept;
}

// Bytes at the moment a task runs, when `held` must be alive before and after it, `inputs` before it, and of those the
// `lasting` ones also after it. A value that ends here may be overwritten in place.
class Moments {
 public:
  Moments(const Problem& problem, const Sizes& sizes, bool in_place)
      : problem_(problem), sizes_(sizes), in_place_(in_place), counted_(problem.buffers.size(), 0) {}

  Bytes bytes_at(TaskId t, const Values& held, const Values& inputs, const Values& lasting) {
    ++stamp_;
    const Task& task = problem_.tasks[t];
    Bytes bytes = sizes_.variables + sizes_.workspace[t];
    for (const auto* list : {&task.reads, &task.writes, &task.updates, &held, &inputs})
      for (const BufferId id : *list)
        if (problem_.buffers[id].kind != BufferKind::Variable && std::exchange(counted_[id], stamp_) != stamp_)
          bytes += sizes_.buffers[id];
    return in_place_ ? bytes - most_shared(task, held, lasting) : bytes;
  }

 private:
  // Optimistic: every write takes the largest place that it ever may.
  Bytes most_shared(const Task& task, const Values& held, const Values& lasting) const {
    Bytes bytes = 0;
    for (int32_t w = 0; w < static_cast<int32_t>(task.writes.size()); ++w) {
      Bytes most = 0;
      for (const InPlace& pair : task.may_share) {
        const BufferId from = task.reads[pair.read];
        const BufferKind kind = problem_.buffers[from].kind;
        if (pair.write != w || kind == BufferKind::Variable || kind == BufferKind::Output) continue;
        if (contains(held, from) || contains(lasting, from)) continue;
        most = std::max(most, std::min(sizes_.buffers[from], sizes_.buffers[task.writes[w]]));
      }
      bytes += most;
    }
    return bytes;
  }

  const Problem& problem_;
  const Sizes& sizes_;
  const bool in_place_;
  std::vector<int64_t> counted_;
  int64_t stamp_ = 0;
};

// How a set of values can have come to be alive together. One of them was made last; while its task ran, all others
// were alive already, beside all that this task touches. So before that moment the others and what the task reads
// were alive together, and so on back to the start. Of all such ways back, the lowest peak is a lower bound. Ways are
// followed from the lowest peak on, so that stopping early gives a lower bound too.
class WayBack {
 public:
  WayBack(const Problem& problem, const std::vector<TaskId>& makers, Moments& moments)
      : problem_(problem), makers_(makers), moments_(moments) {}

  // A lower bound of the peak until `task` first runs: `kept` is alive then, and the inputs that it awaits are alive
  // all the way.
  Bytes find(TaskId task, Values kept, const AwaitedInputs& inputs, int64_t most_ways) {
    std::set<Values> seen;
    std::priority_queue<Way, std::vector<Way>, std::greater<>> ways;
    const Values& awaited = inputs.at(task);
    const Bytes bytes_at_task = moments_.bytes_at(task, kept, awaited, inputs.after(task));
    ways.emplace(bytes_at_task, alive_before(task, std::move(kept)));
    while (most_ways > 0 && !ways.empty()) {
      const Way way = ways.top();
      ways.pop();
      if (!seen.insert(way.second).second) continue;
      --most_ways;
      if (is_start(way.second)) return way.first;
      for (const BufferId last : way.second) {
        const TaskId maker = makers_[last];
        Values held;
        for (const BufferId id : way.second)
          if (makers_[id] != maker) held.push_back(id);
        const Bytes bytes = std::max(way.first, moments_.bytes_at(maker, held, awaited, awaited));
        Values before = alive_before(maker, std::move(held));
        if (seen.count(before) == 0) ways.emplace(bytes, std::move(before));
      }
    }
    return ways.empty() ? 0 : ways.top().first;
  }

 private:
  using Way = std::pair<Bytes, Values>;  // its highest moment, and what was alive before

  // Where a way ends: nothing is alive that was made, or a value has several writers.
  bool is_start(const Values& values) const {
    return values.empty() ||
           std::any_of(values.begin(), values.end(), [&](BufferId id) { return makers_[id] == kMany; });
  }

  Values alive_before(TaskId task, Values held) const {
    for (const auto* list : {&problem_.tasks[task].reads, &problem_.tasks[task].updates})
      for (const BufferId id : *list)
        if (problem_.buffers[id].kind != BufferKind::Variable && problem_.buffers[id].kind != BufferKind::Input)
          insert(held, id);
    return held;
  }

  const Problem& problem_;
  const std::vector<TaskId>& makers_;
  Moments& moments_;
};

}  // namespace

Bound find_lower_bound(const Problem& problem, const Sizes& sizes, bool in_place, Return how) {
  Bytes inputs = sizes.variables, outputs = sizes.variables;
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    if (problem.buffers[b].kind == BufferKind::Input) inputs += sizes.buffers[b];
    if (problem.buffers[b].kind == BufferKind::Output) outputs += sizes.buffers[b];
  }
  Bound bound{std::max(inputs, outputs), -1};
  Moments moments(problem, sizes, in_place);
  std::vector<std::pair<Bytes, TaskId>> tasks;
  const auto raise = [&](Bytes bytes, TaskId task) {
    if (bytes > bound.bytes) bound = {bytes, task};
  };
  if (how == Return::ByLoading) {
    for (TaskId t = 0; t < static_cast<TaskId>(problem.tasks.size()); ++t) raise(moments.bytes_at(t, {}, {}, {}), t);
    return bound;
  }
  const Precedence precedence = find_precedence(problem);
  const AwaitedInputs awaited(problem, sizes, precedence);
  for (TaskId t = 0; t < static_cast<TaskId>(problem.tasks.size()); ++t) {
    const Bytes bytes = moments.bytes_at(t, {}, awaited.at(t), awaited.after(t));
    raise(bytes, t);
    tasks.emplace_back(-bytes, t);
  }
  constexpr size_t kTasks = 32;
  constexpr int64_t kWays = 100;  // for each task
  const size_t count = std::min(tasks.size(), kTasks);
  std::partial_sort(tasks.begin(), tasks.begin() + static_cast<ptrdiff_t>(count), tasks.end());
  const std::vector<TaskId> makers = find_makers(problem);
  WayBack way_back(problem, makers, moments);
  for (size_t i = 0; i < count; ++i) {
    const TaskId task = tasks[i].second;
    raise(way_back.find(task, find_kept(problem, precedence, makers, task), awaited, kWays), task);
  }
  return bound;
}

}  // namespace plimsoll::plan
