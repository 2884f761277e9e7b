// Faults of what runs when: actions missing, doubled, exchanged, and values that are not those the program means.
#include <algorithm>

#include "plan/faults.h"

namespace plimsoll::testing {
namespace {

int64_t count_runs(const Subject& s, const Action& action) {
  return std::count_if(s.plan.actions.begin(), s.plan.actions.end(), [&](const Action& other) {
    return is_run(s, other) && other.task == action.task && other.micro_batch == action.micro_batch;
  });
}

const Task& task_of(const Subject& s, int32_t action) { return s.problem.tasks[s.plan.actions[action].task]; }

bool reads_what_writes(const Subject& s, int32_t reader, int32_t writer) {
  const Work& work = work_at(s, writer);
  return std::any_of(work.writes.begin(), work.writes.end(),
                     [&](BufferId id) { return reads(work_at(s, reader), id); });
}

// All that a task reads, writes or updates, to be named one way or the other.
std::string operands(const Subject& s, const Work& work) {
  std::string names;
  for (const auto* list : {&work.reads, &work.writes, &work.updates})
    for (const BufferId id : *list) names += s.problem.buffers[id].name + "|";
  return names;
}

Words set_action(Subject& s, Dice& dice, void (*to)(Subject&, Action&), const char* words) {
  const int32_t i = pick(s.plan.actions, dice, [&](const Action& action, int32_t) { return is_run(s, action); });
  if (i < 0) return {};
  to(s, s.plan.actions[i]);
  return {words};
}

// Removes an action that this holds for.
template <typename Holds>
Words remove_one(Subject& s, Dice& dice, const Holds& holds) {
  const int32_t i = pick(s.plan.actions, dice, [&](const Action& action, int32_t n) {
    return n > 0 && is_run(s, action) && !hands_place_on(s.plan, n) && holds(action, n);
  });
  if (i < 0) return {};
  const std::string names = operands(s, work_at(s, i)) + task_of(s, i).name;
  remove_action(s, i);
  return {"reads|never runs|before anything|before micro-batch|which lacks|ends with|no place", names};
}

bool is_first_run(const Subject& s, int32_t n) {
  for (int32_t i = 0; i < n; ++i)
    if (is_run(s, s.plan.actions[i]) && s.plan.actions[i].task == s.plan.actions[n].task &&
        s.plan.actions[i].micro_batch == s.plan.actions[n].micro_batch)
      return false;
  return true;
}

// Extends the last life of a buffer to the end of the plan; a value moves to a free place for that.
bool keep_to_the_end(Subject& s, BufferId id) {
  int32_t last = -1;
  for (size_t i = 0; i < s.plan.lives.size(); ++i)
    if (s.plan.lives[i].buffer == id) last = static_cast<int32_t>(i);
  if (last < 0) return false;
  s.plan.lives[last].last_action = static_cast<int32_t>(s.plan.actions.size()) - 1;
  if (is_variable(s, id)) return true;
  move_life(s.plan, s.plan.lives[last], s.plan.arena_bytes);
  return true;
}

// Does any action from `from` on write this buffer?
bool is_written_from(const Subject& s, int32_t from, BufferId id) {
  for (int32_t n = from; n < static_cast<int32_t>(s.plan.actions.size()); ++n) {
    if (!is_run(s, s.plan.actions[n])) continue;
    const Work& work = work_at(s, n);
    if (writes(work, id) || std::count(work.updates.begin(), work.updates.end(), id) > 0) return true;
  }
  return false;
}

// An action that reads a variable's old value, and the later one that updates it.
bool find_update(Subject& s, Dice& dice, int32_t& reader, int32_t& update, BufferId& variable) {
  for (int tries = 0; tries < 20; ++tries) {
    update = pick(s.plan.actions, dice, [&](const Action& action, int32_t n) {
      return is_run(s, action) && !work_at(s, n).updates.empty() && is_variable(s, work_at(s, n).updates[0]) &&
             count_runs(s, action) == 1;
    });
    if (update < 0) return false;
    variable = work_at(s, update).updates[0];
    reader = pick(s.plan.actions, dice, [&](const Action& action, int32_t n) {
      return n < update && is_run(s, action) &&
             std::count(work_at(s, n).reads.begin(), work_at(s, n).reads.end(), variable) > 0;
    });
    if (reader >= 0) return true;
  }
  return false;
}

}  // namespace

std::vector<Fault> action_faults() {
  return {
      {"task past the last",
       [](Subject& s, Dice& d) {
         return set_action(
             s, d,
             [](Subject& x, Action& action) {
               action.task = static_cast<TaskId>(x.problem.tasks.size() + x.plan.transfers.size());
             },
             "runs task");
       }},
      {"task below zero",
       [](Subject& s, Dice& d) {
         return set_action(
             s, d, [](Subject&, Action& action) { action.task = -1; }, "runs task -1");
       }},
      {"task far away",
       [](Subject& s, Dice& d) {
         return set_action(
             s, d, [](Subject&, Action& action) { action.task = std::numeric_limits<TaskId>::min(); },
             "does not exist");
       }},
      {"variant past the last",
       [](Subject& s, Dice& d) {
         return set_action(
             s, d,
             [](Subject& x, Action& action) {
               action.variant = static_cast<int32_t>(x.problem.tasks[action.task].variants.size());
             },
             "runs variant");
       }},
      {"variant below none",
       [](Subject& s, Dice& d) {
         return set_action(
             s, d, [](Subject&, Action& action) { action.variant = -2; }, "runs variant -2");
       }},
      {"variant far away",
       [](Subject& s, Dice& d) {
         return set_action(
             s, d, [](Subject&, Action& action) { action.variant = std::numeric_limits<int32_t>::max(); },
             "runs variant");
       }},
      {"micro-batch past the last",
       [](Subject& s, Dice& d) {
         return set_action(
             s, d,
             [](Subject& x, Action& action) { action.micro_batch = static_cast<int32_t>(x.plan.micro_batches.size()); },
             "which does not exist");
       }},
      {"micro-batch below zero",
       [](Subject& s, Dice& d) {
         return set_action(
             s, d, [](Subject&, Action& action) { action.micro_batch = -1; }, "runs micro-batch -1");
       }},
      {"run of the last number there is",
       [](Subject& s, Dice& d) {
         return set_action(
             s, d, [](Subject&, Action& action) { action.task = std::numeric_limits<TaskId>::max(); },
             "which does not exist");
       }},
      {"run that became a load",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick(s.plan.actions, d, [&](const Action& action, int32_t n) {
           return is_run(s, action) && !work_at(s, n).writes.empty() && !hands_place_on(s.plan, n) &&
                  workspace_bytes(work_at(s, n), s.plan.micro_batches[action.micro_batch]) == 0 &&
                  action.micro_batch == 0 &&
                  std::none_of(s.plan.actions.begin(), s.plan.actions.end(),
                               [&](const Action& other) { return is_save(s, other); });
         });
         if (i < 0) return {};
         const BufferId id = work_at(s, i).writes[0];
         s.plan.actions[i] = load_action(s.plan, s.problem, id);
         s.limits.disk_bytes = Bytes{1} << 40;
         return {"never saved", s.problem.buffers[id].name};
       }},
      {"no actions but lives",
       [](Subject& s, Dice&) -> Words {
         s.plan.actions.clear();
         return {"spans actions|no action"};
       }},
      {"no actions and no lives but variables",
       [](Subject& s, Dice&) -> Words {
         s.plan.actions.clear();
         std::erase_if(s.plan.lives,
                       [&](const Life& l) { return l.buffer == kWorkspace || !is_variable(s, l.buffer); });
         for (Life& life : s.plan.lives) life.last_action = 0;
         s.plan.peak_action = -1;
         fit_arena(s.plan);
         return {"never runs"};
       }},
      {"producer and consumer exchanged",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick(s.plan.actions, d, [&](const Action& action, int32_t n) {
           return n > 0 && is_run(s, action) && is_run(s, s.plan.actions[n - 1]) && reads_what_writes(s, n, n - 1) &&
                  !hands_place_on(s.plan, n) && !hands_place_on(s.plan, n - 1);
         });
         if (i < 0) return {};
         const std::string task = task_of(s, i).name;
         move_action(s, i, i - 1);
         return {"before anything wrote it|instead of|writes|before it has|dropped after", task};
       }},
      {"consumer runs long before its producer",
       [](Subject& s, Dice& d) -> Words {
         int32_t to = -1;
         const int32_t i = pick(s.plan.actions, d, [&](const Action& action, int32_t n) {
           return n > 2 && is_run(s, action) && count_runs(s, action) == 1 && !hands_place_on(s.plan, n);
         });
         if (i < 0) return {};
         to = pick(s.plan.actions, d, [&](const Action& action, int32_t n) {
           return n > 0 && n < i - 1 && is_run(s, action) && reads_what_writes(s, i, n) && is_first_run(s, n);
         });
         if (to < 0) return {};
         const std::string names = task_of(s, i).name;
         move_action(s, i, to);
         return {"reads|before micro-batch", names};
       }},
      {"task that never runs",
       [](Subject& s, Dice& d) {
         return remove_one(s, d, [&](const Action& action, int32_t) { return count_runs(s, action) == 1; });
       }},
      {"update that never runs",
       [](Subject& s, Dice& d) {
         return remove_one(s, d, [&](const Action& action, int32_t n) {
           return count_runs(s, action) == 1 && !work_at(s, n).updates.empty();
         });
       }},
      {"run again left out",
       [](Subject& s, Dice& d) {
         return remove_one(s, d, [&](const Action& action, int32_t n) {
           if (count_runs(s, action) < 2 || is_first_run(s, n)) return false;
           // It starts a life that is read later.
           return std::any_of(s.plan.lives.begin(), s.plan.lives.end(), [&](const Life& life) {
             return life.first_action == n && life.last_action > n && life.buffer != kWorkspace &&
                    is_run(s, s.plan.actions[life.last_action]) && reads(work_at(s, life.last_action), life.buffer);
           });
         });
       }},
      {"first run left out",
       [](Subject& s, Dice& d) {
         return remove_one(s, d, [&](const Action& action, int32_t n) {
           if (count_runs(s, action) < 2 || !is_first_run(s, n)) return false;
           return std::any_of(s.plan.lives.begin(), s.plan.lives.end(), [&](const Life& life) {
             return life.first_action == n && life.last_action > n && life.buffer != kWorkspace &&
                    is_run(s, s.plan.actions[life.last_action]) && reads(work_at(s, life.last_action), life.buffer) &&
                    task_of(s, life.last_action).name != s.problem.tasks[action.task].name;
           });
         });
       }},
      {"run again that may not be",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick(s.plan.actions, d, [&](const Action& action, int32_t) {
           return is_run(s, action) && !s.problem.tasks[action.task].recomputable;
         });
         if (i < 0) return {};
         const Action again = s.plan.actions[i];
         insert_action(s, i + 1, again);
         return {"cannot be recomputed", s.problem.tasks[again.task].name};
       }},
      {"update run again at the end",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick(s.plan.actions, d, [&](const Action& action, int32_t n) {
           return is_run(s, action) && !work_at(s, n).updates.empty() && !s.problem.tasks[action.task].recomputable;
         });
         if (i < 0) return {};
         const Action again = s.plan.actions[i];
         insert_action(s, static_cast<int32_t>(s.plan.actions.size()), again);
         return {"runs again", s.problem.tasks[again.task].name};
       }},
      {"another task in its place",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick(s.plan.actions, d, [&](const Action& action, int32_t n) {
           return is_run(s, action) && !hands_place_on(s.plan, n);
         });
         const int32_t other = pick(s.problem.tasks, d, [](const Task& task, int32_t) { return !task.recomputable; });
         if (i < 0 || other < 0 || other == s.plan.actions[i].task) return {};
         const std::string made = operands(s, work_at(s, i));  // or what is missing instead
         s.plan.actions[i].task = other;
         s.plan.actions[i].variant = -1;
         return {"workspace|needs|runs|reads|writes|adds", made + s.problem.tasks[other].name};
       }},
      {"late read of a value that was dropped",
       [](Subject& s, Dice& d) -> Words {
         const auto last = static_cast<int32_t>(s.plan.actions.size()) - 1;
         const auto is_gone = [&](BufferId id) {
           return std::none_of(s.plan.lives.begin(), s.plan.lives.end(),
                               [&](const Life& life) { return life.buffer == id && life.last_action == last; });
         };
         const int32_t i = pick(s.plan.actions, d, [&](const Action& action, int32_t n) {
           return is_run(s, action) && s.problem.tasks[action.task].recomputable && !work_at(s, n).reads.empty() &&
                  is_gone(work_at(s, n).reads[0]);
         });
         if (i < 0) return {};
         const Action again = s.plan.actions[i];
         insert_action(s, last + 1, again);
         return {"dropped after", s.problem.buffers[s.problem.tasks[again.task].reads[0]].name};
       }},
      {"run again with a weight that was updated",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick(s.plan.actions, d, [&](const Action& action, int32_t n) {
           if (!is_run(s, action) || !s.problem.tasks[action.task].recomputable) return false;
           const std::vector<BufferId>& list = work_at(s, n).reads;
           return std::any_of(list.begin(), list.end(),
                              [&](BufferId id) { return is_variable(s, id) && is_written_from(s, n + 1, id); });
         });
         if (i < 0) return {};
         const Action again = s.plan.actions[i];
         const Work& work = s.problem.tasks[again.task];
         insert_action(s, static_cast<int32_t>(s.plan.actions.size()), again);
         for (const auto* list : {&work.reads, &work.writes})
           for (const BufferId id : *list)
             if (!keep_to_the_end(s, id)) return {};
         s.limits.bytes = std::max(s.limits.bytes, s.plan.arena_bytes);
         return {"instead of", s.problem.tasks[again.task].name};
       }},
      {"weight updated before its last reader",
       [](Subject& s, Dice& d) -> Words {
         int32_t reader = -1, update = -1;
         BufferId variable = -1;
         if (!find_update(s, d, reader, update, variable)) return {};
         const std::string task = task_of(s, update).name;
         const Action action = s.plan.actions[update];
         move_action(s, update, reader);
         // Either what it needs is not there yet, or its reader finds the new value.
         return {"reads|writes|instead of", task + "|" + s.problem.tasks[action.task].name};
       }},
      {"reader moved behind the update",
       [](Subject& s, Dice& d) -> Words {
         int32_t reader = -1, update = -1;
         BufferId variable = -1;
         if (!find_update(s, d, reader, update, variable)) return {};
         if (count_runs(s, s.plan.actions[reader]) != 1 || hands_place_on(s.plan, reader)) return {};
         const std::string names = operands(s, work_at(s, reader)) + task_of(s, reader).name;
         move_action(s, reader, update);
         return {"reads|writes|instead of|overlaps|lacks", names};
       }},
      {"all runs twice",
       [](Subject& s, Dice&) -> Words {
         const std::vector<Action> once = s.plan.actions;
         for (const Action& action : once) insert_action(s, static_cast<int32_t>(s.plan.actions.size()), action);
         return {"runs again|reads|is moved|writes"};
       }},
  };
}

}  // namespace plimsoll::testing
