// Faults of what runs when: steps missing, doubled, exchanged, and values that are not those the program means.
#include <algorithm>

#include "plan/faults.h"

namespace plimsoll::testing {
namespace {

int64_t count_runs(const Subject& s, const Action& step) {
  return std::count_if(s.plan.steps.begin(), s.plan.steps.end(), [&](const Action& other) {
    return is_run(s, other) && other.task == step.task && other.part == step.part;
  });
}

const Task& task_of(const Subject& s, int32_t step) { return s.problem.tasks[s.plan.steps[step].task]; }

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

Words set_step(Subject& s, Dice& dice, void (*to)(Subject&, Action&), const char* words) {
  const int32_t i = pick(s.plan.steps, dice, [&](const Action& step, int32_t) { return is_run(s, step); });
  if (i < 0) return {};
  to(s, s.plan.steps[i]);
  return {words};
}

// Removes a step that this holds for.
template <typename Holds>
Words remove_one(Subject& s, Dice& dice, const Holds& holds) {
  const int32_t i = pick(s.plan.steps, dice, [&](const Action& step, int32_t n) {
    return n > 0 && is_run(s, step) && !hands_place_on(s.plan, n) && holds(step, n);
  });
  if (i < 0) return {};
  const std::string names = operands(s, work_at(s, i)) + task_of(s, i).name;
  remove_step(s, i);
  return {"reads|never runs|before anything|before part|which lacks|ends with|no place", names};
}

bool is_first_run(const Subject& s, int32_t n) {
  for (int32_t i = 0; i < n; ++i)
    if (is_run(s, s.plan.steps[i]) && s.plan.steps[i].task == s.plan.steps[n].task &&
        s.plan.steps[i].part == s.plan.steps[n].part)
      return false;
  return true;
}

// Lets the value that is alive at the end of the plan, or was last, live there: at a place of its own.
bool keep_to_the_end(Subject& s, BufferId id) {
  int32_t last = -1;
  for (size_t i = 0; i < s.plan.lives.size(); ++i)
    if (s.plan.lives[i].buffer == id) last = static_cast<int32_t>(i);
  if (last < 0) return false;
  s.plan.lives[last].last_step = static_cast<int32_t>(s.plan.steps.size()) - 1;
  if (is_variable(s, id)) return true;
  move_life(s.plan, s.plan.lives[last], s.plan.arena_bytes);
  return true;
}

// Does any step from `from` on write this buffer?
bool is_written_from(const Subject& s, int32_t from, BufferId id) {
  for (int32_t n = from; n < static_cast<int32_t>(s.plan.steps.size()); ++n) {
    if (!is_run(s, s.plan.steps[n])) continue;
    const Work& work = work_at(s, n);
    if (writes(work, id) || std::count(work.updates.begin(), work.updates.end(), id) > 0) return true;
  }
  return false;
}

// A step that reads a variable's old value, and the later one that updates it.
bool find_update(Subject& s, Dice& dice, int32_t& reader, int32_t& update, BufferId& variable) {
  for (int tries = 0; tries < 20; ++tries) {
    update = pick(s.plan.steps, dice, [&](const Action& step, int32_t n) {
      return is_run(s, step) && !work_at(s, n).updates.empty() && is_variable(s, work_at(s, n).updates[0]) &&
             count_runs(s, step) == 1;
    });
    if (update < 0) return false;
    variable = work_at(s, update).updates[0];
    reader = pick(s.plan.steps, dice, [&](const Action& step, int32_t n) {
      return n < update && is_run(s, step) &&
             std::count(work_at(s, n).reads.begin(), work_at(s, n).reads.end(), variable) > 0;
    });
    if (reader >= 0) return true;
  }
  return false;
}

}  // namespace

std::vector<Fault> step_faults() {
  return {
      {"task past the last",
       [](Subject& s, Dice& d) {
         return set_step(
             s, d,
             [](Subject& x, Action& step) {
               step.task = static_cast<TaskId>(x.problem.tasks.size() + x.plan.transfers.size());
             },
             "runs task");
       }},
      {"task below zero",
       [](Subject& s, Dice& d) {
         return set_step(
             s, d, [](Subject&, Action& step) { step.task = -1; }, "runs task -1");
       }},
      {"task far away",
       [](Subject& s, Dice& d) {
         return set_step(
             s, d, [](Subject&, Action& step) { step.task = std::numeric_limits<TaskId>::min(); }, "does not exist");
       }},
      {"variant past the last",
       [](Subject& s, Dice& d) {
         return set_step(
             s, d,
             [](Subject& x, Action& step) {
               step.variant = static_cast<int32_t>(x.problem.tasks[step.task].variants.size());
             },
             "runs variant");
       }},
      {"variant below none",
       [](Subject& s, Dice& d) {
         return set_step(
             s, d, [](Subject&, Action& step) { step.variant = -2; }, "runs variant -2");
       }},
      {"variant far away",
       [](Subject& s, Dice& d) {
         return set_step(
             s, d, [](Subject&, Action& step) { step.variant = std::numeric_limits<int32_t>::max(); }, "runs variant");
       }},
      {"part past the last",
       [](Subject& s, Dice& d) {
         return set_step(
             s, d, [](Subject& x, Action& step) { step.part = static_cast<int32_t>(x.plan.part_samples.size()); },
             "which does not exist");
       }},
      {"part below zero",
       [](Subject& s, Dice& d) {
         return set_step(
             s, d, [](Subject&, Action& step) { step.part = -1; }, "runs part -1");
       }},
      {"run of the last number there is",
       [](Subject& s, Dice& d) {
         return set_step(
             s, d, [](Subject&, Action& step) { step.task = std::numeric_limits<TaskId>::max(); },
             "which does not exist");
       }},
      {"run that became a load",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick(s.plan.steps, d, [&](const Action& step, int32_t n) {
           return is_run(s, step) && !work_at(s, n).writes.empty() && !hands_place_on(s.plan, n) &&
                  workspace_bytes(work_at(s, n), s.plan.part_samples[step.part]) == 0 && step.part == 0 &&
                  std::none_of(s.plan.steps.begin(), s.plan.steps.end(),
                               [&](const Action& other) { return is_save(s, other); });
         });
         if (i < 0) return {};
         const BufferId id = work_at(s, i).writes[0];
         s.plan.steps[i] = load_step(s.plan, s.problem, id);
         s.limits.disk_bytes = Bytes{1} << 40;
         return {"never saved", s.problem.buffers[id].name};
       }},
      {"no steps but lives",
       [](Subject& s, Dice&) -> Words {
         s.plan.steps.clear();
         return {"spans steps|no step"};
       }},
      {"no steps and no lives but variables",
       [](Subject& s, Dice&) -> Words {
         s.plan.steps.clear();
         std::erase_if(s.plan.lives, [&](const Life& l) { return l.buffer == kWorkspace || !is_variable(s, l.buffer); });
         for (Life& life : s.plan.lives) life.last_step = 0;
         s.plan.peak_step = -1;
         fit_arena(s.plan);
         return {"never runs"};
       }},
      {"producer and consumer exchanged",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick(s.plan.steps, d, [&](const Action& step, int32_t n) {
           return n > 0 && is_run(s, step) && is_run(s, s.plan.steps[n - 1]) && reads_what_writes(s, n, n - 1) &&
                  !hands_place_on(s.plan, n) && !hands_place_on(s.plan, n - 1);
         });
         if (i < 0) return {};
         const std::string task = task_of(s, i).name;
         move_step(s, i, i - 1);
         return {"before anything wrote it|instead of|writes|before it has|dropped after", task};
       }},
      {"consumer runs long before its producer",
       [](Subject& s, Dice& d) -> Words {
         int32_t to = -1;
         const int32_t i = pick(s.plan.steps, d, [&](const Action& step, int32_t n) {
           return n > 2 && is_run(s, step) && count_runs(s, step) == 1 && !hands_place_on(s.plan, n);
         });
         if (i < 0) return {};
         to = pick(s.plan.steps, d, [&](const Action& step, int32_t n) {
           return n > 0 && n < i - 1 && is_run(s, step) && reads_what_writes(s, i, n) && is_first_run(s, n);
         });
         if (to < 0) return {};
         const std::string names = task_of(s, i).name;
         move_step(s, i, to);
         return {"reads|before part", names};
       }},
      {"task that never runs",
       [](Subject& s, Dice& d) {
         return remove_one(s, d, [&](const Action& step, int32_t) { return count_runs(s, step) == 1; });
       }},
      {"update that never runs",
       [](Subject& s, Dice& d) {
         return remove_one(s, d, [&](const Action& step, int32_t n) {
           return count_runs(s, step) == 1 && !work_at(s, n).updates.empty();
         });
       }},
      {"run again left out",
       [](Subject& s, Dice& d) {
         return remove_one(s, d, [&](const Action& step, int32_t n) {
           if (count_runs(s, step) < 2 || is_first_run(s, n)) return false;
           // It starts a life that is read later.
           return std::any_of(s.plan.lives.begin(), s.plan.lives.end(), [&](const Life& life) {
             return life.first_step == n && life.last_step > n && life.buffer != kWorkspace &&
                    is_run(s, s.plan.steps[life.last_step]) && reads(work_at(s, life.last_step), life.buffer);
           });
         });
       }},
      {"first run left out",
       [](Subject& s, Dice& d) {
         return remove_one(s, d, [&](const Action& step, int32_t n) {
           if (count_runs(s, step) < 2 || !is_first_run(s, n)) return false;
           return std::any_of(s.plan.lives.begin(), s.plan.lives.end(), [&](const Life& life) {
             return life.first_step == n && life.last_step > n && life.buffer != kWorkspace &&
                    is_run(s, s.plan.steps[life.last_step]) && reads(work_at(s, life.last_step), life.buffer) &&
                    task_of(s, life.last_step).name != s.problem.tasks[step.task].name;
           });
         });
       }},
      {"run again that may not be",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick(s.plan.steps, d, [&](const Action& step, int32_t) {
           return is_run(s, step) && !s.problem.tasks[step.task].recomputable;
         });
         if (i < 0) return {};
         const Action again = s.plan.steps[i];
         insert_step(s, i + 1, again);
         return {"cannot be recomputed", s.problem.tasks[again.task].name};
       }},
      {"update run again at the end",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick(s.plan.steps, d, [&](const Action& step, int32_t n) {
           return is_run(s, step) && !work_at(s, n).updates.empty() && !s.problem.tasks[step.task].recomputable;
         });
         if (i < 0) return {};
         const Action again = s.plan.steps[i];
         insert_step(s, static_cast<int32_t>(s.plan.steps.size()), again);
         return {"runs again", s.problem.tasks[again.task].name};
       }},
      {"another task in its place",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick(s.plan.steps, d, [&](const Action& step, int32_t n) {
           return is_run(s, step) && !hands_place_on(s.plan, n);
         });
         const int32_t other = pick(s.problem.tasks, d, [](const Task& task, int32_t) { return !task.recomputable; });
         if (i < 0 || other < 0 || other == s.plan.steps[i].task) return {};
         const std::string made = operands(s, work_at(s, i));  // or what is missing instead
         s.plan.steps[i].task = other;
         s.plan.steps[i].variant = -1;
         return {"workspace|needs|runs|reads|writes|adds", made + s.problem.tasks[other].name};
       }},
      {"late read of a value that was dropped",
       [](Subject& s, Dice& d) -> Words {
         const auto last = static_cast<int32_t>(s.plan.steps.size()) - 1;
         const auto is_gone = [&](BufferId id) {
           return std::none_of(s.plan.lives.begin(), s.plan.lives.end(),
                               [&](const Life& life) { return life.buffer == id && life.last_step == last; });
         };
         const int32_t i = pick(s.plan.steps, d, [&](const Action& step, int32_t n) {
           return is_run(s, step) && s.problem.tasks[step.task].recomputable && !work_at(s, n).reads.empty() &&
                  is_gone(work_at(s, n).reads[0]);
         });
         if (i < 0) return {};
         const Action again = s.plan.steps[i];
         insert_step(s, last + 1, again);
         return {"dropped after", s.problem.buffers[s.problem.tasks[again.task].reads[0]].name};
       }},
      {"run again with a weight that was updated",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick(s.plan.steps, d, [&](const Action& step, int32_t n) {
           if (!is_run(s, step) || !s.problem.tasks[step.task].recomputable) return false;
           const std::vector<BufferId>& list = work_at(s, n).reads;
           return std::any_of(list.begin(), list.end(),
                              [&](BufferId id) { return is_variable(s, id) && is_written_from(s, n + 1, id); });
         });
         if (i < 0) return {};
         const Action again = s.plan.steps[i];
         const Work& work = s.problem.tasks[again.task];
         insert_step(s, static_cast<int32_t>(s.plan.steps.size()), again);
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
         const Action step = s.plan.steps[update];
         move_step(s, update, reader);
         // Either what it needs is not there yet, or its reader finds the new value.
         return {"reads|writes|instead of", task + "|" + s.problem.tasks[step.task].name};
       }},
      {"reader moved behind the update",
       [](Subject& s, Dice& d) -> Words {
         int32_t reader = -1, update = -1;
         BufferId variable = -1;
         if (!find_update(s, d, reader, update, variable)) return {};
         if (count_runs(s, s.plan.steps[reader]) != 1 || hands_place_on(s.plan, reader)) return {};
         const std::string names = operands(s, work_at(s, reader)) + task_of(s, reader).name;
         move_step(s, reader, update);
         return {"reads|writes|instead of|overlaps|lacks", names};
       }},
      {"all runs twice",
       [](Subject& s, Dice&) -> Words {
         const std::vector<Action> once = s.plan.steps;
         for (const Action& step : once) insert_step(s, static_cast<int32_t>(s.plan.steps.size()), step);
         return {"runs again|reads|is moved|writes"};
       }},
  };
}

}  // namespace plimsoll::testing
