#include "plan/search/drops.h"

#include <algorithm>
#include <limits>

#include "plan/search/in_place.h"

namespace plimsoll::plan {
namespace {

constexpr int64_t kMostWork = 100'000;  // for one change

void keep_unique(std::vector<BufferId>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

}  // namespace

Drops::Drops(const Problem& problem, const Sizes& sizes, const std::vector<TaskId>& order, bool in_place, int64_t batch)
    : problem_(&problem),
      sizes_(&sizes),
      in_place_(in_place),
      stages_(static_cast<int32_t>(order.size())),
      program_(std::make_shared<const Program>(read_program(order, batch))),
      alive_(std::max(stages_, 1)) {
  reruns_.resize(order.size());
  rerun_stages_.resize(order.size());
  local_.assign(order.size(), 0);
  touch_of_.assign(order.size(), -1);
  presence_.resize(problem.buffers.size());
  find_needs();
  for (int32_t s = 0; s < stages_; ++s) {
    local_[s] = find_local_peak(s);
    alive_.add(s, s, local_[s]);
  }
}

Drops::Program Drops::read_program(const std::vector<TaskId>& order, int64_t batch) const {
  Program program;
  program.order = order;
  program.ns.resize(order.size());
  program.reads.resize(order.size());
  program.writes.resize(order.size());
  const auto is_variable = [&](BufferId id) { return problem_->buffers[id].kind == BufferKind::Variable; };
  for (int32_t s = 0; s < stages_; ++s) {
    const Task& task = problem_->tasks[order[s]];
    program.ns[s] = cost_ns(task, batch);
    for (const auto* list : {&task.reads, &task.updates})
      for (const BufferId id : *list)
        if (!is_variable(id)) program.reads[s].push_back(id);
    for (const BufferId id : task.writes)
      if (!is_variable(id)) program.writes[s].push_back(id);
    keep_unique(program.reads[s]);
    keep_unique(program.writes[s]);
  }
  find_makers(program);
  return program;
}

void Drops::find_needs() {
  needs_.resize(problem_->buffers.size());
  for (size_t b = 0; b < problem_->buffers.size(); ++b)
    if (problem_->buffers[b].kind == BufferKind::Input) needs_[b] = {{-1, 1, false}};
  for (int32_t s = 0; s < stages_; ++s)
    for (const auto* list : {&program_->reads[s], &program_->writes[s]})
      for (const BufferId id : *list)
        if (needs_[id].empty() || needs_[id].back().stage < s) needs_[id].push_back({s, 1, false});
  for (size_t b = 0; b < problem_->buffers.size(); ++b) {
    const BufferKind kind = problem_->buffers[b].kind;
    if (kind == BufferKind::Variable || needs_[b].empty() || stages_ == 0) continue;
    const int32_t last = needs_[b].back().stage;
    if (kind == BufferKind::Input && last < 0) needs_[b].push_back({0, 1, false});
    if (kind == BufferKind::Output && last < stages_ - 1) needs_[b].push_back({stages_ - 1, 1, false});
    alive_.add(needs_[b].front().stage + 1, needs_[b].back().stage, sizes_->buffers[b]);
  }
}

// A task may run again when it changes nothing and is the first to write what it writes; and only until something that
// it reads or writes is written or changed by another.
void Drops::find_makers(Program& program) const {
  constexpr int32_t kNever = std::numeric_limits<int32_t>::max();
  std::vector<int32_t> first_writer(problem_->buffers.size(), kNever), next_writer(problem_->buffers.size(), kNever);
  for (int32_t s = stages_ - 1; s >= 0; --s)
    for (const auto* list : {&problem_->tasks[program.order[s]].writes, &problem_->tasks[program.order[s]].updates})
      for (const BufferId id : *list) first_writer[id] = s;
  program.maker.assign(problem_->buffers.size(), -1);
  program.rerun_until.assign(program.order.size(), -1);
  for (int32_t s = stages_ - 1; s >= 0; --s) {
    const Task& task = problem_->tasks[program.order[s]];
    bool may = task.recomputable && task.updates.empty();
    int32_t until = stages_ - 1;
    for (const BufferId id : task.writes) {
      const BufferKind kind = problem_->buffers[id].kind;
      may = may && first_writer[id] == s && (kind == BufferKind::Temporary || kind == BufferKind::Output);
      until = std::min(until, next_writer[id]);
    }
    for (const BufferId id : task.reads) until = std::min(until, next_writer[id]);
    for (const auto* list : {&task.writes, &task.updates})
      for (const BufferId id : *list) next_writer[id] = s;
    if (!may) continue;
    program.rerun_until[s] = until;
    for (const BufferId id : task.writes)
      if (problem_->buffers[id].kind == BufferKind::Temporary) program.maker[id] = s;
  }
}

size_t Drops::find_need(BufferId id, int32_t stage) const {
  const std::vector<Need>& needs = needs_[id];
  return static_cast<size_t>(std::lower_bound(needs.begin(), needs.end(), stage,
                                              [](const Need& need, int32_t at) { return need.stage < at; }) -
                             needs.begin());
}

int32_t Drops::find_remake(BufferId id, size_t need) const {
  if (program_->maker[id] < 0 || need == 0 || needs_[id][need].is_remade) return -1;
  const int32_t task = program_->maker[id], before = needs_[id][need - 1].stage, stage = needs_[id][need].stage;
  const std::vector<int32_t>& reruns = rerun_stages_[task];
  const auto later = std::lower_bound(reruns.begin(), reruns.end(), stage);
  // Where its task runs again anyway, the value is recomputed there for free.
  if (later != reruns.begin() && *std::prev(later) > before) return *std::prev(later);
  const int32_t latest = std::min(stage, program_->rerun_until[task]);
  return latest > before ? latest : -1;
}

size_t Drops::find(const Gap& gap) const {
  const std::vector<Need>& needs = needs_[gap.id];
  const size_t at = find_need(gap.id, gap.after);
  if (at == 0 || at == needs.size() || needs[at].stage != gap.after || needs[at].is_remade) return 0;
  return needs[at - 1].stage == gap.before ? at : 0;
}

std::vector<std::pair<BufferId, size_t>> Drops::remade_in(int32_t stage) const {
  std::vector<std::pair<BufferId, size_t>> found;
  for (const Rerun& rerun : reruns_[stage])
    for (const BufferId id : program_->writes[rerun.task]) {
      const size_t need = find_need(id, stage);
      if (need < needs_[id].size() && needs_[id][need].stage == stage && needs_[id][need].is_remade)
        found.emplace_back(id, need);
    }
  return found;
}

bool Drops::drop(BufferId id, size_t need) {
  begin(kMostWork);
  start_drop(id, need);
  return finish();
}

// From the last made to the first: a value's next need is then already in the stage where later values are recomputed.
bool Drops::drop_all(std::span<const Gap> gaps) {
  begin(kMostWork + 20 * static_cast<int64_t>(gaps.size()));
  // NOLINTNEXTLINE(modernize-loop-convert): clang 14 can't read the standard library's reversed ranges
  for (auto gap = gaps.rbegin(); gap != gaps.rend(); ++gap) {
    // The gap may have become shorter: the change itself may have put a need into it.
    const size_t need = find_need(gap->id, gap->before) + 1;
    if (need >= needs_[gap->id].size() || find_remake(gap->id, need) < 0) continue;
    start_drop(gap->id, need);
    if (!finish()) return false;
  }
  return true;
}

void Drops::start_drop(BufferId id, size_t need) {
  const int32_t before = needs_[id][need - 1].stage, stage = find_remake(id, need);
  touch(before);
  touch(stage);
  if (stage == needs_[id][need].stage)
    set_flag(id, need, true);
  else
    insert_need(id, need, stage, 0, true);
  change_alive(before + 1, stage, -sizes_->buffers[id]);
  run_again(program_->maker[id], stage);
}

bool Drops::keep(BufferId id, size_t need) {
  begin(kMostWork);
  const int32_t before = needs_[id][need - 1].stage, stage = needs_[id][need].stage;
  touch(before);
  touch(stage);
  change_alive(before + 1, stage, sizes_->buffers[id]);
  if (needs_[id][need].users == 0)
    erase_need(id, need);
  else
    set_flag(id, need, false);
  run_no_more(program_->maker[id], stage);
  return finish();
}

void Drops::begin(int64_t most_work) {
  for (const Touch& touch : touched_) touch_of_[touch.first] = -1;
  journal_.clear();
  raised_.clear();
  touched_.clear();
  to_need_.clear();
  to_release_.clear();
  ns_before_ = extra_ns_;
  most_work_ = work_ + most_work;
}

// New needs are handled before releases, so that no value is released that is needed again at once.
bool Drops::finish() {
  while (!to_need_.empty() || !to_release_.empty()) {
    if (++work_ > most_work_) return false;
    std::vector<Errand>& errands = to_need_.empty() ? to_release_ : to_need_;
    const Errand errand = errands.back();
    errands.pop_back();
    if (&errands == &to_need_)
      need(errand.id, errand.stage);
    else
      release(errand.id, errand.stage);
  }
  return true;
}

void Drops::need(BufferId id, int32_t stage) {
  const size_t at = find_need(id, stage);
  std::vector<Need>& needs = needs_[id];
  touch(stage);
  if (at < needs.size() && needs[at].stage == stage) return count_users(id, at, 1);
  const int32_t before = needs[at - 1].stage, task = program_->maker[id];
  const Bytes bytes = sizes_->buffers[id];
  touch(before);
  if (at < needs.size()) {
    const int32_t after = needs[at].stage;
    if (!needs[at].is_remade) return insert_need(id, at, stage, 1, false);
    if (fits(stage + 1, after, id)) {  // recomputed here instead of in `after`, and held until then
      touch(after);
      insert_need(id, at, stage, 1, true);
      set_flag(id, at + 1, false);
      change_alive(stage + 1, after, bytes);
      run_again(task, stage);
      return run_no_more(task, after);
    }
  }
  const bool may_remake = task >= 0 && stage <= program_->rerun_until[task];
  if (!may_remake || fits(before + 1, stage, id)) {
    insert_need(id, at, stage, 1, false);
    return change_alive(before + 1, stage, bytes);
  }
  insert_need(id, at, stage, 1, true);
  run_again(task, stage);
}

void Drops::release(BufferId id, int32_t stage) {
  const size_t at = find_need(id, stage);
  std::vector<Need>& needs = needs_[id];
  touch(stage);
  if (needs[at].users > 1) return count_users(id, at, -1);
  const int32_t before = needs[at - 1].stage, task = program_->maker[id];
  const Bytes bytes = sizes_->buffers[id];
  const bool has_next = at + 1 < needs.size(), next_is_kept = has_next && !needs[at + 1].is_remade;
  if (!needs[at].is_remade) {
    erase_need(id, at);
    if (next_is_kept) return;
    touch(before);
    return change_alive(before + 1, stage, -bytes);
  }
  if (!next_is_kept) {
    erase_need(id, at);
    return run_no_more(task, stage);
  }
  const int32_t after = needs[at + 1].stage;
  if (after > program_->rerun_until[task]) return count_users(id, at, -1);  // can't be recomputed any later
  touch(after);
  set_flag(id, at + 1, true);
  erase_need(id, at);
  change_alive(stage + 1, after, -bytes);
  run_again(task, after);
  run_no_more(task, stage);
}

void Drops::run_again(int32_t task, int32_t stage) {
  touch(stage);
  change_rerun(task, stage, 1);
}

void Drops::run_no_more(int32_t task, int32_t stage) {
  touch(stage);
  change_rerun(task, stage, -1);
}

void Drops::insert_need(BufferId id, size_t at, int32_t stage, int32_t users, bool is_remade) {
  needs_[id].insert(needs_[id].begin() + static_cast<ptrdiff_t>(at), {stage, users, is_remade});
  journal_.push_back({Change::Kind::Insert, id, stage, 0, false});
}

void Drops::erase_need(BufferId id, size_t at) {
  const Need need = needs_[id][at];
  journal_.push_back({Change::Kind::Erase, id, need.stage, need.users, need.is_remade});
  needs_[id].erase(needs_[id].begin() + static_cast<ptrdiff_t>(at));
}

void Drops::count_users(BufferId id, size_t at, int32_t change) {
  needs_[id][at].users += change;
  journal_.push_back({Change::Kind::Users, id, needs_[id][at].stage, change, false});
}

void Drops::set_flag(BufferId id, size_t at, bool is_remade) {
  needs_[id][at].is_remade = is_remade;
  journal_.push_back({Change::Kind::Flag, id, needs_[id][at].stage, 0, !is_remade});
}

void Drops::change_rerun(int32_t task, int32_t stage, int32_t change) {
  std::vector<Rerun>& reruns = reruns_[stage];
  std::vector<int32_t>& stages = rerun_stages_[task];
  auto at = std::lower_bound(reruns.begin(), reruns.end(), task,
                             [](const Rerun& r, int32_t other) { return r.task < other; });
  const bool is_first = at == reruns.end() || at->task != task;
  if (is_first) at = reruns.insert(at, {task, 0});
  at->users += change;
  const bool is_last = at->users == 0;
  if (is_last) reruns.erase(at);
  const auto place = std::lower_bound(stages.begin(), stages.end(), stage);
  if (is_first) stages.insert(place, stage);
  if (is_last) stages.erase(place);
  journal_.push_back({Change::Kind::RerunUsers, task, stage, change, false});
  if (!is_first && !is_last) return;
  extra_ns_ += is_first ? program_->ns[task] : -program_->ns[task];
  std::vector<Errand>& errands = is_first ? to_need_ : to_release_;
  for (const BufferId id : program_->reads[task]) errands.push_back({id, stage});
}

void Drops::change_alive(int32_t first, int32_t last, Bytes bytes) {
  if (bytes > 0 && first <= last) raised_.push_back({first, last, alive_.highest(first, last)});
  alive_.add(first, last, bytes);
  journal_.push_back({Change::Kind::Alive, first, last, bytes, false});
}

void Drops::touch(int32_t stage) {
  if (stage < 0 || touch_of_[stage] >= 0) return;
  touch_of_[stage] = static_cast<int32_t>(touched_.size());
  touched_.push_back({stage, stage, alive_.highest(stage, stage)});
}

void Drops::measure_touched() {
  for (const Touch& touch : touched_) {
    const int32_t stage = touch.first;
    const Bytes local = find_local_peak(stage);
    if (local == local_[stage]) continue;
    journal_.push_back({Change::Kind::Local, stage, 0, local_[stage], false});
    alive_.add(stage, stage, local - local_[stage]);
    local_[stage] = local;
  }
}

bool Drops::stays_below(Bytes bound, Bytes relieved) {
  measure_touched();
  const auto is_fine = [&](const Touch& touch) {
    return alive_.highest(touch.first, touch.last) <= std::max({bound, touch.before, relieved - 1});
  };
  return std::all_of(touched_.begin(), touched_.end(), is_fine) && std::all_of(raised_.begin(), raised_.end(), is_fine);
}

bool Drops::returns_below(Bytes bound) {
  measure_touched();
  return std::all_of(touched_.begin(), touched_.end(), [&](const Touch& touch) {
    return reruns_[touch.first].empty() || alive_.highest(touch.first, touch.last) <= bound;
  });
}

void Drops::undo() {
  to_need_.clear();
  to_release_.clear();
  std::vector<Change> journal;
  journal.swap(journal_);
  // NOLINTNEXTLINE(modernize-loop-convert): as above
  for (auto at = journal.rbegin(); at != journal.rend(); ++at) {
    const Change& change = *at;
    switch (change.kind) {
      case Change::Kind::Insert:
        erase_need(change.a, find_need(change.a, change.b));
        break;
      case Change::Kind::Erase:
        insert_need(change.a, find_need(change.a, change.b), change.b, static_cast<int32_t>(change.bytes), change.flag);
        break;
      case Change::Kind::Users:
        count_users(change.a, find_need(change.a, change.b), -static_cast<int32_t>(change.bytes));
        break;
      case Change::Kind::Flag:
        set_flag(change.a, find_need(change.a, change.b), change.flag);
        break;
      case Change::Kind::RerunUsers:
        change_rerun(change.a, change.b, -static_cast<int32_t>(change.bytes));
        break;
      case Change::Kind::Alive:
        alive_.add(change.a, change.b, -change.bytes);
        break;
      case Change::Kind::Local:
        alive_.add(change.a, change.a, change.bytes - local_[change.a]);
        local_[change.a] = change.bytes;
        break;
    }
  }
  const double ns_before = ns_before_;
  begin(0);
  extra_ns_ = ns_before_ = ns_before;
}

void Drops::look_up(BufferId id, int32_t stage) {
  const std::vector<Need>& needs = needs_[id];
  const size_t at = find_need(id, stage);
  Presence& presence = presence_[id];
  presence = {.stamp = stamp_};
  const bool is_needed = at < needs.size() && needs[at].stage == stage;
  const size_t next = is_needed ? at + 1 : at;
  presence.is_alive = at > 0 && at < needs.size() && !needs[at].is_remade;
  presence.stays = next < needs.size() && !needs[next].is_remade;
  if (is_needed && next == needs.size() && problem_->buffers[id].kind == BufferKind::Output) presence.stays = true;
}

// Runs through the stage moment by moment: the tasks that run again, then its own.
Bytes Drops::find_local_peak(int32_t stage) {
  ++stamp_;
  const std::vector<Rerun>& reruns = reruns_[stage];
  const auto moments = static_cast<int32_t>(reruns.size()) + 1;
  work_ += moments;
  const auto task_at = [&](int32_t m) { return m + 1 == moments ? stage : reruns[m].task; };
  for (int32_t m = 0; m < moments; ++m)
    for (const auto* list : {&program_->reads[task_at(m)], &program_->writes[task_at(m)]})
      for (const BufferId id : *list) {
        if (presence_[id].stamp != stamp_) look_up(id, stage);
        presence_[id].last_moment = m;
      }
  Bytes extra = 0, highest = 0;
  for (int32_t m = 0; m < moments; ++m) {
    const int32_t task = task_at(m);
    for (const BufferId id : program_->writes[task]) {
      Presence& presence = presence_[id];
      if (presence.is_alive) continue;
      presence.is_alive = true;
      presence.born = m;
      extra += sizes_->buffers[id];
    }
    const Bytes shared = in_place_ ? shared_in(task, m) : 0;
    highest = std::max(highest, extra + sizes_->workspace[program_->order[task]] - shared);
    for (const auto* list : {&program_->reads[task], &program_->writes[task]})
      for (const BufferId id : *list) {
        Presence& presence = presence_[id];
        presence.is_taken = false;
        if (presence.last_moment != m || presence.stays || !presence.is_alive) continue;
        presence.is_alive = false;
        extra -= sizes_->buffers[id];
      }
  }
  return highest;
}

Bytes Drops::shared_in(int32_t task, int32_t moment) {
  Bytes bytes = 0;
  hand_places_on(
      *problem_, *sizes_, problem_->tasks[program_->order[task]],
      [&](BufferId from) {
        const Presence& presence = presence_[from];
        return presence.last_moment == moment && !presence.stays && !presence.is_taken;
      },
      [&](BufferId to) { return presence_[to].born == moment && !presence_[to].is_taken; },
      [&](BufferId from, BufferId to) {
        presence_[from].is_taken = presence_[to].is_taken = true;
        bytes += sizes_->buffers[from];
      });
  return bytes;
}

std::vector<TaskId> Drops::actions() const {
  std::vector<TaskId> actions;
  for (int32_t s = 0; s < stages_; ++s) {
    for (const Rerun& rerun : reruns_[s]) actions.push_back(program_->order[rerun.task]);
    actions.push_back(program_->order[s]);
  }
  return actions;
}

}  // namespace plimsoll::plan
