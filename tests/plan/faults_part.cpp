// Faults of a batch in parts: sizes, order, sums that lose a term.
#include <algorithm>

#include "plan/faults.h"

namespace plimsoll::testing {
namespace {

bool is_split(const Subject& s) { return s.plan.part_samples.size() > 1; }

int32_t parts_of(const Subject& s) { return static_cast<int32_t>(s.plan.part_samples.size()); }

bool is_sum(const Subject& s, BufferId id) {
  const Buffer& buffer = s.problem.buffers[id];
  return buffer.per_sample_bytes == 0 && buffer.kind == BufferKind::Temporary;
}

// The step at which this part is added to a sum; `writes` alone, not further terms.
int32_t pick_sum(Subject& s, Dice& dice, int32_t part) {
  if (!is_split(s)) return -1;
  return pick(s.plan.steps, dice, [&](const Action& step, int32_t n) {
    return is_run(s, step) && step.part == part && !work_at(s, n).writes.empty() && is_sum(s, work_at(s, n).writes[0]);
  });
}

Words set_parts(Subject& s, std::vector<int64_t> samples, const char* words) {
  s.plan.part_samples = std::move(samples);
  return {words};
}

Words remove_sum(Subject& s, Dice& dice, int32_t part, const char* words) {
  const int32_t i = pick_sum(s, dice, part);
  if (i < 0) return {};
  const std::string sum = s.problem.buffers[work_at(s, i).writes[0]].name;
  const std::string task = s.problem.tasks[s.plan.steps[i].task].name;
  remove_step(s, i);
  return {words, sum + "|" + task};
}

// Changes the size of a whole-batch buffer to that of the largest part.
Words shrink_whole(Subject& s, Dice& dice, BufferKind kind) {
  if (!is_split(s)) return {};
  const int32_t i = pick(s.plan.lives, dice, [&](const Life& l, int32_t) {
    return l.buffer != kWorkspace && s.problem.buffers[l.buffer].kind == kind &&
           s.problem.buffers[l.buffer].per_sample_bytes >= kAlignment;
  });
  if (i < 0) return {};
  Life& life = s.plan.lives[i];
  life.bytes = placed_bytes(s.problem.buffers[life.buffer], s.plan.part_samples[0]);
  return {"needs", name_of(s, life)};
}

// Ends a life between two parts and starts it again at once.
Words split_life(Subject& s, Dice& dice, BufferKind kind, bool has_rows, const char* words) {
  if (!is_split(s)) return {};
  const int32_t i = pick(s.plan.lives, dice, [&](const Life& l, int32_t) {
    return l.buffer != kWorkspace && s.problem.buffers[l.buffer].kind == kind &&
           (s.problem.buffers[l.buffer].per_sample_bytes > 0) == has_rows && l.last_step > l.first_step + 1 &&
           s.plan.steps[l.first_step].part == 0;
  });
  if (i < 0) return {};
  const Life life = s.plan.lives[i];
  const int32_t cut = pick(s.plan.steps, dice, [&](const Action& step, int32_t n) {
    return step.part == 1 && n > life.first_step && n <= life.last_step && is_run(s, step) &&
           writes(work_at(s, n), life.buffer);
  });
  if (cut <= life.first_step + 1) return {};
  s.plan.lives[i].last_step = cut - 1;
  s.plan.lives.push_back({life.buffer, cut, life.last_step, life.offset, life.bytes});
  sort_lives(s.plan);
  return {words, name_of(s, life)};
}

// Runs a step under another part's number.
Words renumber(Subject& s, Dice& dice, int32_t from, int32_t to, const char* words) {
  if (parts_of(s) <= std::max(from, to)) return {};
  const int32_t i = pick(s.plan.steps, dice, [&](const Action& step, int32_t n) {
    return is_run(s, step) && step.part == from && workspace_bytes(work_at(s, n), 1) == 0 &&
           std::any_of(work_at(s, n).reads.begin(), work_at(s, n).reads.end(), [&](BufferId id) {
             return s.problem.buffers[id].kind == BufferKind::Temporary && s.problem.buffers[id].per_sample_bytes > 0;
           });
  });
  if (i < 0) return {};
  s.plan.steps[i].part = to;
  return {words, s.problem.tasks[s.plan.steps[i].task].name};
}

// The step that uses up a sum once all parts are in it.
int32_t pick_once(Subject& s, Dice& dice) {
  if (!is_split(s)) return -1;
  return pick(s.plan.steps, dice, [&](const Action& step, int32_t n) {
    return is_run(s, step) && n > 0 && work_at(s, n).writes.empty() && !work_at(s, n).updates.empty() &&
           s.problem.tasks[step.task].batch_rule == BatchRule::Mixes;
  });
}

}  // namespace

std::vector<Fault> part_faults() {
  return {
      {"no parts", [](Subject& s, Dice&) { return set_parts(s, {}, "no parts"); }},
      {"a part of no samples",
       [](Subject& s, Dice&) -> Words {
         s.plan.part_samples.push_back(0);
         return {"has 0 samples"};
       }},
      {"a part below zero",
       [](Subject& s, Dice&) -> Words {
         s.plan.part_samples.back() = -1;
         return {"has -1 samples"};
       }},
      {"a sample too few",
       [](Subject& s, Dice&) -> Words {
         if (--s.plan.part_samples[0] == 0) return {};
         return {"samples of"};
       }},
      {"a sample too many",
       [](Subject& s, Dice&) -> Words {
         ++s.plan.part_samples.back();
         return {"more than its"};
       }},
      {"samples past counting",
       [](Subject& s, Dice&) {
         constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
         return set_parts(s, {1, kMost, kMost}, "more than its|samples of");
       }},
      {"one part where the steps have more",
       [](Subject& s, Dice&) -> Words {
         if (!is_split(s)) return {};
         return set_parts(s, {s.limits.batch}, "which does not exist");
       }},
      {"more parts than the steps have",
       [](Subject& s, Dice&) -> Words {
         if (is_split(s) || s.limits.batch < 2) return {};
         return set_parts(s, {s.limits.batch - 1, 1}, "needs|mixes|never runs");
       }},
      {"parts of other sizes",
       [](Subject& s, Dice&) -> Words {
         if (!is_split(s)) return {};
         --s.plan.part_samples.back();
         ++s.plan.part_samples.front();
         if (s.plan.part_samples.back() == 0) s.plan.part_samples.back() = 1, s.plan.part_samples[1] -= 1;
         return {"needs"};
       }},
      {"workspace for another part's samples",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick(s.plan.lives, d, [&](const Life& l, int32_t) {
           return l.buffer == kWorkspace && s.plan.steps[l.first_step].part == parts_of(s) - 1 &&
                  work_at(s, l.first_step).workspace_per_sample_bytes >= kAlignment;
         });
         if (i < 0 || !is_split(s) || s.plan.part_samples.front() == s.plan.part_samples.back()) return {};
         s.plan.lives[i].bytes = workspace_bytes(work_at(s, s.plan.lives[i].first_step), s.plan.part_samples.front());
         return {"needs", "workspace"};
       }},
      {"first part of a sum missing",
       [](Subject& s, Dice& d) { return remove_sum(s, d, 0, "before part|lacks the parts before|before anything"); }},
      {"middle part of a sum missing",
       [](Subject& s, Dice& d) -> Words {
         if (parts_of(s) < 3) return {};
         return remove_sum(s, d, 1, "before part|lacks the parts before|instead of");
       }},
      {"last part of a sum missing",
       [](Subject& s, Dice& d) { return remove_sum(s, d, parts_of(s) - 1, "instead of"); }},
      {"a part added twice",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_sum(s, d, 1);
         if (i < 0) return {};
         Task& task = s.problem.tasks[s.plan.steps[i].task];
         task.recomputable = true;  // even then: a sum is no plain value
         const Action again = s.plan.steps[i];
         insert_step(s, i + 1, again);
         for (Life& life : s.plan.lives)
           if (life.buffer != kWorkspace && life.last_step == i && reads(task, life.buffer)) ++life.last_step;
         return {"lacks the parts before", s.problem.buffers[task.writes[0]].name};
       }},
      {"first part again after the others",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_sum(s, d, 1);
         if (i < 0) return {};
         s.plan.steps[i].part = 0;
         s.problem.tasks[s.plan.steps[i].task].recomputable = true;
         return {"instead of", s.problem.tasks[s.plan.steps[i].task].name};
       }},
      {"parts in the wrong order",
       [](Subject& s, Dice&) -> Words {
         if (!is_split(s) || s.plan.part_samples[0] != s.plan.part_samples[1]) return {};
         for (Action& step : s.plan.steps)
           if (step.part < 2 && is_run(s, step) && s.problem.tasks[step.task].batch_rule != BatchRule::Mixes)
             step.part = 1 - step.part;
         return {"before part 0"};
       }},
      {"rows of the next part", [](Subject& s, Dice& d) { return renumber(s, d, 0, 1, "before part 0|instead of"); }},
      {"rows of the part before",
       [](Subject& s, Dice& d) { return renumber(s, d, 1, 0, "instead of|cannot be recomputed"); }},
      {"an update for a later part",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_once(s, d);
         if (i < 0) return {};
         s.plan.steps[i].part = 1;
         return {"but it runs once", s.problem.tasks[s.plan.steps[i].task].name};
       }},
      {"an update before the last part",
       [](Subject& s, Dice& d) -> Words {
         const int32_t last = pick_sum(s, d, parts_of(s) - 1);
         if (last < 0) return {};
         const int32_t i = pick(s.plan.steps, d, [&](const Action& step, int32_t n) {
           return n > last && is_run(s, step) && step.part == 0 && reads(work_at(s, n), work_at(s, last).writes[0]);
         });
         if (i < 0) return {};
         const std::string name = s.problem.buffers[work_at(s, last).writes[0]].name;
         move_step(s, i, last);
         return {"instead of", name};
       }},
      {"a sum dropped between parts",
       [](Subject& s, Dice& d) { return split_life(s, d, BufferKind::Temporary, false, "lacks the parts before"); }},
      {"an output's rows dropped between parts",
       [](Subject& s, Dice& d) { return split_life(s, d, BufferKind::Output, true, "loses the rows"); }},
      {"an output's sum dropped between parts",
       [](Subject& s, Dice& d) {
         return split_life(s, d, BufferKind::Output, false, "loses the rows|lacks the parts before");
       }},
      {"input of one part", [](Subject& s, Dice& d) { return shrink_whole(s, d, BufferKind::Input); }},
      {"output of one part", [](Subject& s, Dice& d) { return shrink_whole(s, d, BufferKind::Output); }},
      {"a split of what mixes",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i =
             pick(s.problem.tasks, d, [](const Task& t, int32_t) { return t.batch_rule == BatchRule::Rows; });
         if (i < 0 || !is_split(s)) return {};
         s.problem.tasks[i].batch_rule = BatchRule::Mixes;
         return {"mixes the samples", s.problem.tasks[i].name};
       }},
      {"rows that make a sum",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i =
             pick(s.problem.tasks, d, [](const Task& t, int32_t) { return t.batch_rule == BatchRule::Sums; });
         if (i < 0 || !is_split(s)) return {};
         s.problem.tasks[i].batch_rule = BatchRule::Rows;
         return {"has rows but", s.problem.tasks[i].name};
       }},
      {"a partial sum read in parts",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_sum(s, d, 0);
         if (i < 0) return {};
         const BufferId sum = work_at(s, i).writes[0];
         const int32_t reader = pick(s.problem.tasks, d, [&](const Task& t, int32_t n) {
           return n > s.plan.steps[i].task && t.batch_rule == BatchRule::Rows;
         });
         if (reader < 0) return {};
         s.problem.tasks[reader].reads.push_back(sum);
         return {"needs the whole of", s.problem.buffers[sum].name};
       }},
      {"a sum over parts called bit-identical",
       [](Subject& s, Dice&) -> Words {
         if (!is_split(s)) return {};
         s.plan.exactness = Exactness::BitIdentical;
         return {"not bit-identical"};
       }},
  };
}

}  // namespace plimsoll::testing
