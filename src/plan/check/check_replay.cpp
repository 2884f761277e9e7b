#include "plan/check/check_replay.h"

#include <algorithm>

#include <fmt/format.h>

namespace plimsoll::plan {
namespace {

constexpr int64_t kUndefined = -1;

// A version of a buffer is named by the task that made it and the micro-batch it was made in. What the caller
// put there before action 0 has no task.
class Replay {
 public:
  Replay(const Problem& problem, const Plan& plan)
      : problem_(problem), plan_(plan), micro_batches_(static_cast<int64_t>(plan.micro_batches.size())) {}

  std::string run(const std::vector<int32_t>& by_start) {
    std::string fault = read_program();
    if (!fault.empty()) return fault;
    const size_t buffers = problem_.buffers.size();
    holds_.assign(buffers, kUndefined);
    saved_.assign(buffers, kUndefined);
    is_stored_.assign(buffers, false);
    for (const BufferId id : plan_.stored) {
      is_stored_[id] = true;
      saved_[id] = version(-1, 0);
    }
    life_.assign(buffers, -1);
    lives_begun_.assign(buffers, 0);
    first_run_.assign(problem_.tasks.size(), 0);
    int64_t all_runs = 0;
    for (size_t t = 0; t < problem_.tasks.size(); ++t) {
      first_run_[t] = all_runs;
      all_runs += runs_in_micro_batches_[t] ? micro_batches_ : 1;
    }
    // A plan from a file may name many micro-batches: one with too few actions for them is faulty, and is refused
    // before memory for tasks x micro-batches is taken.
    const auto length = static_cast<int64_t>(plan_.actions.size() + problem_.tasks.size()) + micro_batches_;
    if (all_runs > 2 * length)
      return fmt::format("a task never runs: {} actions are too few for {} micro-batches", plan_.actions.size(),
                         micro_batches_);
    runs_.assign(static_cast<size_t>(all_runs), 0);
    size_t next = 0;
    const auto actions = static_cast<int32_t>(plan_.actions.size());
    for (int32_t s = 0; s == 0 || s < actions; ++s) {
      for (; next < by_start.size() && plan_.lives[by_start[next]].first_action == s; ++next)
        if (fault = begin_life(by_start[next], s); !fault.empty()) return fault;
      if (s < actions) fault = is_transfer(problem_, plan_.actions[s]) ? move_buffer(s) : run_task(s);
      if (!fault.empty()) return fault;
    }
    return check_end(std::max(actions - 1, 0));
  }

 private:
  int64_t version(TaskId writer, int64_t micro_batch) const {
    return (int64_t{writer} + 1) * micro_batches_ + micro_batch;
  }
  const std::string& name(BufferId id) const { return problem_.buffers[id].name; }

  // Which writer each operand means, which tasks run once for each micro-batch, and which buffers are sums over
  // micro-batches.
  std::string read_program() {
    const size_t tasks = problem_.tasks.size();
    last_writer_.assign(problem_.buffers.size(), -1);
    has_rows_.assign(problem_.buffers.size(), false);
    is_sum_.assign(problem_.buffers.size(), false);
    std::vector<int32_t> sum_of(problem_.buffers.size(), -1);
    sums_.resize(tasks);
    runs_in_micro_batches_.assign(tasks, false);
    meant_.resize(tasks);
    for (size_t b = 0; b < problem_.buffers.size(); ++b)
      has_rows_[b] = problem_.buffers[b].kind == BufferKind::Input && problem_.buffers[b].per_sample_bytes > 0;
    for (size_t t = 0; t < tasks; ++t) {
      const Task& task = problem_.tasks[t];
      bool in_micro_batches = task.workspace_per_sample_bytes > 0;
      for (const auto* list : {&task.reads, &task.updates})
        for (const BufferId id : *list) {
          meant_[t].push_back(last_writer_[id]);
          in_micro_batches = in_micro_batches || has_rows_[id];
        }
      for (const auto* list : {&task.writes, &task.updates})
        for (const BufferId id : *list)
          in_micro_batches = in_micro_batches || problem_.buffers[id].per_sample_bytes > 0;
      in_micro_batches = in_micro_batches && micro_batches_ > 1;
      if (in_micro_batches && task.batch_rule == BatchRule::Mixes) {
        if (!waits_for_all_rows(task)) return fmt::format("{} mixes the samples of a batch that is split", task.name);
        in_micro_batches = false;
      }
      runs_in_micro_batches_[t] = in_micro_batches;
      if (in_micro_batches)
        for (const BufferId id : task.reads)
          if (is_sum_[id])
            return fmt::format("{} needs the whole of {}, which is a sum over micro-batches", task.name, name(id));
      for (const auto* list : {&task.writes, &task.updates})
        for (const BufferId id : *list) {
          last_writer_[id] = static_cast<TaskId>(t);
          has_rows_[id] = in_micro_batches && problem_.buffers[id].per_sample_bytes > 0;
          is_sum_[id] = in_micro_batches && !has_rows_[id];
          if (is_sum_[id] && task.batch_rule == BatchRule::Rows)
            return fmt::format("{} has rows but {} has none", task.name, name(id));
          // Tasks that add to a sum before anything else writes it belong to one sum; the last of them completes it.
          if (!is_sum_[id]) {
            sum_of[id] = -1;
            continue;
          }
          if (sum_of[id] < 0 || list == &task.writes) {
            sum_of[id] = static_cast<int32_t>(sum_ends_.size());
            sum_ends_.push_back(0);
          }
          sum_ends_[sum_of[id]] = static_cast<TaskId>(t);
          if (list == &task.writes) sums_[t].push_back({id, sum_of[id]});
        }
    }
    return "";
  }

  // A task that needs the whole batch may run once after all micro-batches, on rows that were collected.
  bool waits_for_all_rows(const Task& task) const {
    const auto grows = [&](BufferId id) { return problem_.buffers[id].per_sample_bytes > 0; };
    return task.workspace_per_sample_bytes == 0 && std::none_of(task.writes.begin(), task.writes.end(), grows) &&
           std::none_of(task.updates.begin(), task.updates.end(), grows) &&
           std::all_of(task.reads.begin(), task.reads.end(),
                       [&](BufferId id) { return !has_rows_[id] || holds_whole_batch(problem_.buffers[id]); });
  }

  std::string begin_life(int32_t index, int32_t s) {
    const Life& life = plan_.lives[index];
    if (life.buffer == kWorkspace) return "";
    const Buffer& buffer = problem_.buffers[life.buffer];
    if (life_[life.buffer] >= 0 && plan_.lives[life_[life.buffer]].last_action >= s)
      return fmt::format("{} has two places at action {}", buffer.name, s);
    if (lives_begun_[life.buffer] == 0 && buffer.kind == BufferKind::Input && s > 0)
      return fmt::format("input {} has no place before action {}", buffer.name, s);
    const bool gathers = buffer.kind == BufferKind::Output || buffer.is_collected;
    if (lives_begun_[life.buffer]++ > 0 && gathers && micro_batches_ > 1)
      return fmt::format("output {} loses the rows of earlier micro-batches at action {}", buffer.name, s);
    life_[life.buffer] = index;
    const bool is_given = buffer.kind == BufferKind::Variable || buffer.kind == BufferKind::Input;
    holds_[life.buffer] = is_given && s == 0 && !is_stored_[life.buffer] ? version(-1, 0) : kUndefined;
    return "";
  }

  bool is_alive(BufferId id, int32_t s) const { return life_[id] >= 0 && plan_.lives[life_[id]].last_action >= s; }

  std::string run_task(int32_t s) {
    const Action& action = plan_.actions[s];
    const Task& task = problem_.tasks[action.task];
    const Work& work = work_of(problem_, plan_, action);
    if (!runs_in_micro_batches_[action.task] && action.micro_batch != 0)
      return fmt::format("{} runs in micro-batch {} at action {}, but it runs once", task.name, action.micro_batch, s);
    if (action.micro_batch > 0 && runs_[first_run_[action.task] + action.micro_batch - 1] == 0)
      return fmt::format("{} runs micro-batch {} at action {}, before micro-batch {}", task.name, action.micro_batch, s,
                         action.micro_batch - 1);
    if (runs_[first_run_[action.task] + action.micro_batch]++ > 0 && !task.recomputable)
      return fmt::format("{} runs again at action {}, but it cannot be recomputed", task.name, s);
    size_t operand = 0;
    for (const auto* list : {&work.reads, &work.updates})
      for (const BufferId id : *list) {
        if (action.variant >= 0 && list == &work.reads && is_part_of_sum(action.task, id))
          return fmt::format("{} needs the whole of {}, which is a sum over micro-batches", task.name, name(id));
        if (std::string fault = check_value(s, id, meant_by(action, operand++, id)); !fault.empty()) return fault;
      }
    for (const BufferId id : work.writes) {
      if (!is_alive(id, s))
        return fmt::format("{} writes {} at action {}, where it has no place", task.name, name(id), s);
      const TaskId end = end_of_sum(action.task, id);
      if (end >= 0 && action.micro_batch > 0 && holds_[id] != version(end, action.micro_batch - 1))
        return fmt::format("{} adds micro-batch {} into {} at action {}, which lacks the micro-batches before",
                           task.name, action.micro_batch, name(id), s);
    }
    for (const auto* list : {&work.writes, &work.updates})
      for (const BufferId id : *list)
        holds_[id] = version(action.task, runs_in_micro_batches_[action.task] ? action.micro_batch : 0);
    return "";
  }

  // The task that completes the sum that this task begins in each micro-batch; -1 when it begins none.
  TaskId end_of_sum(TaskId task, BufferId id) const {
    for (const Sum& sum : sums_[task])
      if (sum.buffer == id) return sum_ends_[sum.index];
    return -1;
  }

  // The version that an operand must hold. A variant's operands that the task itself lacks mean what the program's
  // order says at that task.
  int64_t meant_by(const Action& action, size_t operand, BufferId id) const {
    TaskId writer = -1;
    if (action.variant < 0) {
      writer = meant_[action.task][operand];
    } else {
      writer = writer_before(action.task, id);
    }
    if (writer < 0 || !runs_in_micro_batches_[writer]) return version(writer, 0);
    return version(writer, runs_in_micro_batches_[action.task] ? action.micro_batch : micro_batches_ - 1);
  }

  TaskId writer_before(TaskId task, BufferId id) const {
    for (TaskId t = task - 1; t >= 0; --t)
      for (const auto* list : {&problem_.tasks[t].writes, &problem_.tasks[t].updates})
        if (std::find(list->begin(), list->end(), id) != list->end()) return t;
    return -1;
  }

  // Asked for variants only: read_program refuses a task whose own reads are such.
  bool is_part_of_sum(TaskId task, BufferId id) const {
    const TaskId writer = writer_before(task, id);
    return runs_in_micro_batches_[task] && writer >= 0 && runs_in_micro_batches_[writer] &&
           problem_.buffers[id].per_sample_bytes == 0;
  }

  std::string check_value(int32_t s, BufferId id, int64_t meant) const {
    const std::string& task = problem_.tasks[plan_.actions[s].task].name;
    if (!is_alive(id, s)) {
      if (life_[id] < 0) return fmt::format("{} reads {} at action {}, before it has a place", task, name(id), s);
      return fmt::format("{} reads {} at action {}, but it was dropped after action {}", task, name(id), s,
                         plan_.lives[life_[id]].last_action);
    }
    if (holds_[id] == meant) return "";
    if (holds_[id] == kUndefined)
      return fmt::format("{} reads {} at action {}, before anything wrote it", task, name(id), s);
    return fmt::format("{} reads {} at action {}, which holds {} instead of {}", task, name(id), s,
                       describe_version(holds_[id]), describe_version(meant));
  }

  std::string describe_version(int64_t version) const {
    const auto writer = static_cast<TaskId>(version / micro_batches_ - 1);
    if (writer < 0) return "the value before the step";
    const std::string& name = problem_.tasks[writer].name;
    return runs_in_micro_batches_[writer]
               ? fmt::format("the value of {} for micro-batch {}", name, version % micro_batches_)
               : "the value of " + name;
  }

  std::string move_buffer(int32_t s) {
    const Task& task = task_of(problem_, plan_, plan_.actions[s]);
    const BufferId id = moved_by(task);
    if (!is_alive(id, s)) return fmt::format("{} is moved at action {}, where it has no place", name(id), s);
    if (is_load(task)) {
      if (saved_[id] == kUndefined)
        return fmt::format("{} is loaded at action {}, but never saved before", name(id), s);
      holds_[id] = saved_[id];
    } else {
      if (holds_[id] == kUndefined)
        return fmt::format("{} is saved at action {}, before anything wrote it", name(id), s);
      saved_[id] = holds_[id];
    }
    return "";
  }

  std::string check_end(int32_t last_action) const {
    for (size_t t = 0; t < problem_.tasks.size(); ++t)
      for (int64_t micro_batch = 0; micro_batch < (runs_in_micro_batches_[t] ? micro_batches_ : 1); ++micro_batch)
        if (runs_[first_run_[t] + micro_batch] == 0)
          return fmt::format("{} never runs{}", problem_.tasks[t].name,
                             runs_in_micro_batches_[t] ? fmt::format(" for micro-batch {}", micro_batch) : "");
    if (!sum_ends_.empty() && plan_.exactness == Exactness::BitIdentical)
      return fmt::format("{} adds up over micro-batches, which is not bit-identical",
                         problem_.tasks[sum_ends_.front()].name);
    for (size_t b = 0; b < problem_.buffers.size(); ++b) {
      const Buffer& buffer = problem_.buffers[b];
      if (buffer.kind == BufferKind::Input && lives_begun_[b] == 0)
        return fmt::format("input {} has no place", buffer.name);
      if (buffer.kind != BufferKind::Output && buffer.kind != BufferKind::Variable) continue;
      const TaskId writer = last_writer_[b];
      const int64_t final = version(writer, writer >= 0 && runs_in_micro_batches_[writer] ? micro_batches_ - 1 : 0);
      if (is_stored_[b]) {
        if (saved_[b] != final)
          return fmt::format("{} is stored as {} instead of {}", buffer.name, describe_version(saved_[b]),
                             describe_version(final));
        continue;
      }
      if (!is_alive(static_cast<BufferId>(b), last_action))
        return fmt::format("output {} is dropped before the end", buffer.name);
      if (holds_[b] != final)
        return fmt::format("{} ends with {} instead of {}", buffer.name,
                           holds_[b] == kUndefined ? "nothing" : describe_version(holds_[b]), describe_version(final));
    }
    return "";
  }

  const Problem& problem_;
  const Plan& plan_;
  const int64_t micro_batches_;
  struct Sum {
    BufferId buffer;
    int32_t index;  // into sum_ends_
  };
  std::vector<TaskId> last_writer_, sum_ends_;
  std::vector<std::vector<Sum>> sums_;  // by task
  std::vector<bool> has_rows_, is_sum_, runs_in_micro_batches_, is_stored_;
  std::vector<std::vector<TaskId>> meant_;  // for reads, then updates
  std::vector<int64_t> holds_, saved_;
  std::vector<int32_t> life_, lives_begun_;
  std::vector<int64_t> first_run_;  // by task: its first place in runs_, which has one for each micro-batch it runs in
  std::vector<int32_t> runs_;
};

}  // namespace

std::string replay_values(const Problem& problem, const Plan& plan, const std::vector<int32_t>& by_start) {
  return Replay(problem, plan).run(by_start);
}

}  // namespace plimsoll::plan
