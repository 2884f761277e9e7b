#include "plan/search/order.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

namespace plimsoll::plan {
namespace {

// How a list scheduler ranks the tasks that are ready.
enum class Rank {
  FreersFirst,  // what frees memory at once, otherwise as in the base order
  Smallest,     // least growth first
  Foresight,    // least growth first, counting the follower that consumes the result at once
  Newest,       // what frees memory, then what became ready last: depth first
};

// One scheduler for both directions of time: backwards, a buffer is born at its last user and dies at its writer.
class ListScheduler {
 public:
  ListScheduler(const Problem& problem, const Sizes& sizes, const Precedence& precedence)
      : problem_(problem), sizes_(sizes), precedence_(precedence), tasks_(static_cast<TaskId>(problem.tasks.size())) {
    first_touch_.assign(static_cast<size_t>(tasks_) + 1, 0);
    std::vector<BufferId> mine;
    for (TaskId t = 0; t < tasks_; ++t) {
      const Task& task = problem.tasks[t];
      mine.clear();
      for (const auto* list : {&task.reads, &task.writes, &task.updates})
        for (const BufferId id : *list)
          if (problem.buffers[id].kind != BufferKind::Variable) mine.push_back(id);
      std::sort(mine.begin(), mine.end());
      mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
      touched_.insert(touched_.end(), mine.begin(), mine.end());
      first_touch_[t + 1] = static_cast<int32_t>(touched_.size());
    }
  }

  std::vector<TaskId> run(const std::vector<TaskId>& base, Rank rank, bool backwards) {
    start(base, rank, backwards);
    std::vector<TaskId> order;
    order.reserve(base.size());
    while (!ready_.empty()) {
      const Entry top = ready_.top();
      ready_.pop();
      if (is_done_[top.task]) continue;
      if (const Entry now = entry_of(top.task); top < now) {  // its rank fell since it was queued
        ready_.push(now);
        continue;
      }
      finish(top.task);
      order.push_back(top.task);
    }
    if (backwards) std::reverse(order.begin(), order.end());
    return order;
  }

 private:
  struct Entry {
    Bytes growth;
    int64_t position;
    TaskId task;
    auto key() const { return std::tuple(growth, position, task); }
    bool operator<(const Entry& other) const { return key() < other.key(); }
    bool operator>(const Entry& other) const { return key() > other.key(); }
  };

  void start(const std::vector<TaskId>& base, Rank rank, bool backwards) {
    rank_ = rank;
    first_next_ = backwards ? &precedence_.first_predecessor : &precedence_.first_successor;
    next_ = backwards ? &precedence_.predecessors : &precedence_.successors;
    const auto& first_before = backwards ? precedence_.first_successor : precedence_.first_predecessor;
    lives_on_ = backwards ? BufferKind::Input : BufferKind::Output;
    const BufferKind given = backwards ? BufferKind::Output : BufferKind::Input;
    position_.assign(tasks_, 0);
    for (TaskId i = 0; i < tasks_; ++i) position_[base[i]] = backwards ? tasks_ - i : i;
    users_left_.assign(problem_.buffers.size(), 0);
    last_user_.assign(problem_.buffers.size(), 0);
    is_born_.assign(problem_.buffers.size(), false);
    is_done_.assign(tasks_, false);
    for (size_t b = 0; b < problem_.buffers.size(); ++b) is_born_[b] = problem_.buffers[b].kind == given;
    for (TaskId t = 0; t < tasks_; ++t)
      for (int32_t k = first_touch_[t]; k < first_touch_[t + 1]; ++k) {
        ++users_left_[touched_[k]];
        last_user_[touched_[k]] ^= t;  // once one user is left, this is its id
      }
    waits_for_.assign(tasks_, 0);
    ready_ = {};
    clock_ = 0;
    became_ready_.assign(tasks_, 0);
    for (TaskId t = 0; t < tasks_; ++t) {
      waits_for_[t] = first_before[t + 1] - first_before[t];
      if (waits_for_[t] == 0) ready_.push(entry_of(t));
    }
  }

  void finish(TaskId task) {
    is_done_[task] = true;
    ++clock_;
    for (int32_t k = first_touch_[task]; k < first_touch_[task + 1]; ++k) {
      const BufferId id = touched_[k];
      is_born_[id] = true;
      last_user_[id] ^= task;
      if (--users_left_[id] == 1 && waits_for_[last_user_[id]] == 0) ready_.push(entry_of(last_user_[id]));
    }
    for (int32_t k = (*first_next_)[task]; k < (*first_next_)[task + 1]; ++k) {
      const TaskId next = (*next_)[k];
      if (--waits_for_[next] > 0) continue;
      became_ready_[next] = clock_;
      ready_.push(entry_of(next));
    }
  }

  // Bytes that come alive minus bytes that die when the task runs now. `before` is a task assumed to have just run.
  Bytes growth_of(TaskId task, TaskId before) const {
    Bytes growth = 0;
    for (int32_t k = first_touch_[task]; k < first_touch_[task + 1]; ++k) {
      const BufferId id = touched_[k];
      const bool touched_before = before >= 0 && std::binary_search(touched_.begin() + first_touch_[before],
                                                                    touched_.begin() + first_touch_[before + 1], id);
      if (!is_born_[id] && !touched_before) growth += sizes_.buffers[id];
      if (users_left_[id] - (touched_before ? 1 : 0) == 1 && problem_.buffers[id].kind != lives_on_)
        growth -= sizes_.buffers[id];
    }
    return growth;
  }

  Bytes growth_with_followers(TaskId task) const {
    Bytes growth = growth_of(task, -1);
    for (int32_t k = first_touch_[task]; k < first_touch_[task + 1]; ++k) {
      const BufferId id = touched_[k];
      if (users_left_[id] != 2 || is_born_[id]) continue;
      const TaskId follower = last_user_[id] ^ task;
      if (waits_for_[follower] != 1) continue;
      growth += std::min<Bytes>(0, growth_of(follower, task));
    }
    return growth;
  }

  Entry entry_of(TaskId task) const {
    const Bytes growth = growth_of(task, -1);
    switch (rank_) {
      case Rank::FreersFirst:
        return {growth <= 0 ? 0 : 1, position_[task], task};
      case Rank::Smallest:
        return {growth, position_[task], task};
      case Rank::Foresight:
        return {growth_with_followers(task), position_[task], task};
      case Rank::Newest:
        return {growth <= 0 ? 0 : 1, (-became_ready_[task] << 32) + position_[task], task};
    }
    return {growth, position_[task], task};
  }

  const Problem& problem_;
  const Sizes& sizes_;
  const Precedence& precedence_;
  const TaskId tasks_;
  std::vector<int32_t> first_touch_;
  std::vector<BufferId> touched_;
  Rank rank_ = Rank::FreersFirst;
  const std::vector<int32_t>* first_next_ = nullptr;
  const std::vector<int32_t>* next_ = nullptr;
  BufferKind lives_on_ = BufferKind::Output;
  int64_t clock_ = 0;
  std::vector<int64_t> position_, became_ready_;
  std::vector<int32_t> users_left_, waits_for_;
  std::vector<TaskId> last_user_;
  std::vector<bool> is_born_, is_done_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready_;
};

}  // namespace

Precedence find_precedence(const Problem& problem) {
  const auto tasks = static_cast<TaskId>(problem.tasks.size());
  std::vector<TaskId> writer(problem.buffers.size(), -1);
  std::vector<std::vector<TaskId>> readers(problem.buffers.size());
  Precedence precedence;
  precedence.first_predecessor.assign(static_cast<size_t>(tasks) + 1, 0);
  precedence.first_successor.assign(static_cast<size_t>(tasks) + 1, 0);
  std::vector<TaskId> before;
  for (TaskId t = 0; t < tasks; ++t) {
    const Task& task = problem.tasks[t];
    before.clear();
    for (const auto* list : {&task.reads, &task.writes, &task.updates})
      for (const BufferId id : *list)
        if (writer[id] >= 0) before.push_back(writer[id]);
    for (const auto* list : {&task.writes, &task.updates})
      for (const BufferId id : *list) before.insert(before.end(), readers[id].begin(), readers[id].end());
    for (const BufferId id : task.reads) readers[id].push_back(t);
    for (const auto* list : {&task.writes, &task.updates})
      for (const BufferId id : *list) {
        writer[id] = t;
        readers[id].clear();
      }
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    before.erase(std::remove(before.begin(), before.end(), t), before.end());
    for (const TaskId other : before) ++precedence.first_successor[other + 1];
    precedence.predecessors.insert(precedence.predecessors.end(), before.begin(), before.end());
    precedence.first_predecessor[t + 1] = static_cast<int32_t>(precedence.predecessors.size());
  }
  std::partial_sum(precedence.first_successor.begin(), precedence.first_successor.end(),
                   precedence.first_successor.begin());
  precedence.successors.resize(precedence.predecessors.size());
  std::vector<int32_t> fill(precedence.first_successor.begin(), precedence.first_successor.end() - 1);
  for (TaskId t = 0; t < tasks; ++t)
    for (int32_t k = precedence.first_predecessor[t]; k < precedence.first_predecessor[t + 1]; ++k)
      precedence.successors[fill[precedence.predecessors[k]]++] = t;
  return precedence;
}

namespace {

using Score = std::pair<Bytes, double>;

// Moves single tasks from one side of the peak to the other while that lowers the peak. The work is bounded by tries x
// tasks, so that large problems get a few tries and small ones all they need.
void refine(const Problem& problem, const Sizes& sizes, const Precedence& precedence, bool in_place,
            std::vector<TaskId>& order) {
  constexpr int64_t kWork = 1'000'000;
  const auto tasks = static_cast<int32_t>(order.size());
  int64_t tries = kWork / std::max(tasks, 1);
  Timeline timeline = make_timeline(problem, sizes, order, in_place), moved;
  std::vector<int32_t> position(order.size());
  // Moves the task at `from` to stand at `to`, and keeps that if the peak falls.
  const auto helps = [&](int32_t from, int32_t to) {
    if (from == to || --tries < 0) return false;
    const auto at = order.begin();
    const auto move = [&](int32_t a, int32_t b) {
      if (a < b) std::rotate(at + a, at + a + 1, at + b + 1);
      if (a > b) std::rotate(at + b, at + a, at + a + 1);
    };
    move(from, to);
    find_timeline(problem, sizes, order, in_place, moved);
    if (Score(moved.peak_bytes, moved.area) < Score(timeline.peak_bytes, timeline.area)) {
      std::swap(timeline, moved);
      return true;
    }
    move(to, from);
    return false;
  };
  bool has_moved = true;
  while (has_moved && tries > 0) {
    has_moved = false;
    for (int32_t i = 0; i < tasks; ++i) position[order[i]] = i;
    const int32_t peak = timeline.peak_action;
    for (int32_t distance = 0; distance < tasks && !has_moved && tries > 0; ++distance)
      for (const int32_t i : {peak - distance, peak + distance}) {
        if (i < 0 || i >= tasks || has_moved) continue;
        int32_t earliest = 0, latest = tasks - 1;
        for (int32_t k = precedence.first_predecessor[order[i]]; k < precedence.first_predecessor[order[i] + 1]; ++k)
          earliest = std::max(earliest, position[precedence.predecessors[k]] + 1);
        for (int32_t k = precedence.first_successor[order[i]]; k < precedence.first_successor[order[i] + 1]; ++k)
          latest = std::min(latest, position[precedence.successors[k]] - 1);
        if (i >= peak && earliest <= peak) has_moved = helps(i, earliest) || helps(i, peak);
        if (!has_moved && i <= peak && latest >= peak) has_moved = helps(i, latest) || helps(i, peak);
      }
  }
}

}  // namespace

std::vector<TaskId> choose_order(const Problem& problem, const Sizes& sizes, bool in_place) {
  std::vector<TaskId> best(problem.tasks.size());
  std::iota(best.begin(), best.end(), 0);
  Timeline timeline;
  const auto score = [&](const std::vector<TaskId>& order) {
    find_timeline(problem, sizes, order, in_place, timeline);
    return std::pair(timeline.peak_bytes, timeline.area);
  };
  auto best_score = score(best);
  const Precedence precedence = find_precedence(problem);
  ListScheduler scheduler(problem, sizes, precedence);
  // Each candidate starts from the best order so far, so that later ones refine earlier ones.
  constexpr size_t kTasksForTwoRounds = 20'000;
  const int rounds = problem.tasks.size() <= kTasksForTwoRounds ? 2 : 1;
  for (int round = 0; round < rounds; ++round) {
    const auto before = best_score;
    for (const Rank rank : {Rank::FreersFirst, Rank::Foresight, Rank::Smallest, Rank::Newest})
      for (const bool backwards : {false, true}) {
        std::vector<TaskId> order = scheduler.run(best, rank, backwards);
        if (const auto found = score(order); found < best_score) {
          best_score = found;
          best = std::move(order);
        }
      }
    if (best_score == before) break;
  }
  refine(problem, sizes, precedence, in_place, best);
  return best;
}

}  // namespace plimsoll::plan
