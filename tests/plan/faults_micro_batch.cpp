// Faults of a batch in micro-batches: sizes, order, sums that lose a term.
#include <algorithm>

#include "plan/faults.h"

namespace plimsoll::testing {
namespace {

bool is_split(const Subject& s) { return s.plan.micro_batches.size() > 1; }

int32_t parts_of(const Subject& s) { return static_cast<int32_t>(s.plan.micro_batches.size()); }

bool is_sum(const Subject& s, BufferId id) {
  const Buffer& buffer = s.problem.buffers[id];
  return buffer.per_sample_bytes == 0 && buffer.kind == BufferKind::Temporary;
}

// The action at which this micro-batch is added to a sum; `writes` alone, not further terms.
int32_t pick_sum(Subject& s, Dice& dice, int32_t micro_batch) {
  if (!is_split(s)) return -1;
  return pick(s.plan.actions, dice, [&](const Action& action, int32_t n) {
    return is_run(s, action) && action.micro_batch == micro_batch && !work_at(s, n).writes.empty() &&
           is_sum(s, work_at(s, n).writes[0]);
  });
}

Words set_parts(Subject& s, std::vector<int64_t> samples, const char* words) {
  s.plan.micro_batches = std::move(samples);
  return {words};
}

Words remove_sum(Subject& s, Dice& dice, int32_t micro_batch, const char* words) {
  const int32_t i = pick_sum(s, dice, micro_batch);
  if (i < 0) return {};
  const std::string sum = s.problem.buffers[work_at(s, i).writes[0]].name;
  const std::string task = s.problem.tasks[s.plan.actions[i].task].name;
  remove_action(s, i);
  return {words, sum + "|" + task};
}

// Changes the size of a whole-batch buffer to that of the largest micro-batch.
Words shrink_whole(Subject& s, Dice& dice, BufferKind kind) {
  if (!is_split(s)) return {};
  const int32_t i = pick(s.plan.lives, dice, [&](const Life& l, int32_t) {
    return l.buffer != kWorkspace && s.problem.buffers[l.buffer].kind == kind &&
           s.problem.buffers[l.buffer].per_sample_bytes >= kAlignment;
  });
  if (i < 0) return {};
  Life& life = s.plan.lives[i];
  life.bytes = placed_bytes(s.problem.buffers[life.buffer], s.plan.micro_batches[0]);
  return {"needs", name_of(s, life)};
}

// Ends a life between two micro-batches and starts it again at once.
Words split_life(Subject& s, Dice& dice, BufferKind kind, bool has_rows, const char* words) {
  if (!is_split(s)) return {};
  const int32_t i = pick(s.plan.lives, dice, [&](const Life& l, int32_t) {
    return l.buffer != kWorkspace && s.problem.buffers[l.buffer].kind == kind &&
           (s.problem.buffers[l.buffer].per_sample_bytes > 0) == has_rows && l.last_action > l.first_action + 1 &&
           s.plan.actions[l.first_action].micro_batch == 0;
  });
  if (i < 0) return {};
  const Life life = s.plan.lives[i];
  const int32_t cut = pick(s.plan.actions, dice, [&](const Action& action, int32_t n) {
    return action.micro_batch == 1 && n > life.first_action && n <= life.last_action && is_run(s, action) &&
           writes(work_at(s, n), life.buffer);
  });
  if (cut <= life.first_action + 1) return {};
  s.plan.lives[i].last_action = cut - 1;
  s.plan.lives.push_back({life.buffer, cut, life.last_action, life.offset, life.bytes});
  sort_lives(s.plan);
  return {words, name_of(s, life)};
}

// Runs an action under another micro-batch's number.
Words renumber(Subject& s, Dice& dice, int32_t from, int32_t to, const char* words) {
  if (parts_of(s) <= std::max(from, to)) return {};
  const int32_t i = pick(s.plan.actions, dice, [&](const Action& action, int32_t n) {
    return is_run(s, action) && action.micro_batch == from && workspace_bytes(work_at(s, n), 1) == 0 &&
           std::any_of(work_at(s, n).reads.begin(), work_at(s, n).reads.end(), [&](BufferId id) {
             return s.problem.buffers[id].kind == BufferKind::Temporary && s.problem.buffers[id].per_sample_bytes > 0;
           });
  });
  if (i < 0) return {};
  s.plan.actions[i].micro_batch = to;
  return {words, s.problem.tasks[s.plan.actions[i].task].name};
}

// The action that uses up a sum once all micro-batches are in it.
int32_t pick_once(Subject& s, Dice& dice) {
  if (!is_split(s)) return -1;
  return pick(s.plan.actions, dice, [&](const Action& action, int32_t n) {
    return is_run(s, action) && n > 0 && work_at(s, n).writes.empty() && !work_at(s, n).updates.empty() &&
           s.problem.tasks[action.task].batch_rule == BatchRule::Mixes;
  });
}

}  // namespace

std::vector<Fault> micro_batch_faults() {
  return {
      {"no micro-batches", [](Subject& s, Dice&) { return set_parts(s, {}, "no micro-batches"); }},
      {"a micro-batch of no samples",
       [](Subject& s, Dice&) -> Words {
         s.plan.micro_batches.push_back(0);
         return {"has 0 samples"};
       }},
      {"a micro-batch below zero",
       [](Subject& s, Dice&) -> Words {
         s.plan.micro_batches.back() = -1;
         return {"has -1 samples"};
       }},
      {"a sample too few",
       [](Subject& s, Dice&) -> Words {
         if (--s.plan.micro_batches[0] == 0) return {};
         return {"samples of"};
       }},
      {"a sample too many",
       [](Subject& s, Dice&) -> Words {
         ++s.plan.micro_batches.back();
         return {"more than its"};
       }},
      {"samples past counting",
       [](Subject& s, Dice&) {
         constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
         return set_parts(s, {1, kMost, kMost}, "more than its|samples of");
       }},
      {"one micro-batch where the actions have more",
       [](Subject& s, Dice&) -> Words {
         if (!is_split(s)) return {};
         return set_parts(s, {s.limits.batch}, "which does not exist");
       }},
      {"more micro-batches than the actions have",
       [](Subject& s, Dice&) -> Words {
         if (is_split(s) || s.limits.batch < 2) return {};
         return set_parts(s, {s.limits.batch - 1, 1}, "needs|mixes|never runs");
       }},
      {"micro-batches of other sizes",
       [](Subject& s, Dice&) -> Words {
         if (!is_split(s)) return {};
         --s.plan.micro_batches.back();
         ++s.plan.micro_batches.front();
         if (s.plan.micro_batches.back() == 0) s.plan.micro_batches.back() = 1, s.plan.micro_batches[1] -= 1;
         return {"needs"};
       }},
      {"workspace for another micro-batch's samples",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick(s.plan.lives, d, [&](const Life& l, int32_t) {
           return l.buffer == kWorkspace && s.plan.actions[l.first_action].micro_batch == parts_of(s) - 1 &&
                  work_at(s, l.first_action).workspace_per_sample_bytes >= kAlignment;
         });
         if (i < 0 || !is_split(s) || s.plan.micro_batches.front() == s.plan.micro_batches.back()) return {};
         s.plan.lives[i].bytes =
             workspace_bytes(work_at(s, s.plan.lives[i].first_action), s.plan.micro_batches.front());
         return {"needs", "workspace"};
       }},
      {"first part of a sum missing",
       [](Subject& s, Dice& d) {
         return remove_sum(s, d, 0, "before micro-batch|lacks the micro-batches before|before anything");
       }},
      {"middle part of a sum missing",
       [](Subject& s, Dice& d) -> Words {
         if (parts_of(s) < 3) return {};
         return remove_sum(s, d, 1, "before micro-batch|lacks the micro-batches before|instead of");
       }},
      {"last part of a sum missing",
       [](Subject& s, Dice& d) { return remove_sum(s, d, parts_of(s) - 1, "instead of"); }},
      {"a micro-batch added twice",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_sum(s, d, 1);
         if (i < 0) return {};
         Task& task = s.problem.tasks[s.plan.actions[i].task];
         task.recomputable = true;  // even then: a sum is no plain value
         const Action again = s.plan.actions[i];
         insert_action(s, i + 1, again);
         for (Life& life : s.plan.lives)
           if (life.buffer != kWorkspace && life.last_action == i && reads(task, life.buffer)) ++life.last_action;
         return {"lacks the micro-batches before", s.problem.buffers[task.writes[0]].name};
       }},
      {"first micro-batch again after the others",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_sum(s, d, 1);
         if (i < 0) return {};
         s.plan.actions[i].micro_batch = 0;
         s.problem.tasks[s.plan.actions[i].task].recomputable = true;
         return {"instead of", s.problem.tasks[s.plan.actions[i].task].name};
       }},
      {"micro-batches in the wrong order",
       [](Subject& s, Dice&) -> Words {
         if (!is_split(s) || s.plan.micro_batches[0] != s.plan.micro_batches[1]) return {};
         for (Action& action : s.plan.actions)
           if (action.micro_batch < 2 && is_run(s, action) &&
               s.problem.tasks[action.task].batch_rule != BatchRule::Mixes)
             action.micro_batch = 1 - action.micro_batch;
         return {"before micro-batch 0"};
       }},
      {"rows of the next micro-batch",
       [](Subject& s, Dice& d) { return renumber(s, d, 0, 1, "before micro-batch 0|instead of"); }},
      {"rows of the micro-batch before",
       [](Subject& s, Dice& d) { return renumber(s, d, 1, 0, "instead of|cannot be recomputed"); }},
      {"an update for a later micro-batch",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_once(s, d);
         if (i < 0) return {};
         s.plan.actions[i].micro_batch = 1;
         return {"but it runs once", s.problem.tasks[s.plan.actions[i].task].name};
       }},
      {"an update before the last micro-batch",
       [](Subject& s, Dice& d) -> Words {
         const int32_t last = pick_sum(s, d, parts_of(s) - 1);
         if (last < 0) return {};
         const int32_t i = pick(s.plan.actions, d, [&](const Action& action, int32_t n) {
           return n > last && is_run(s, action) && action.micro_batch == 0 &&
                  reads(work_at(s, n), work_at(s, last).writes[0]);
         });
         if (i < 0) return {};
         const std::string name = s.problem.buffers[work_at(s, last).writes[0]].name;
         move_action(s, i, last);
         return {"instead of", name};
       }},
      {"a sum dropped between micro-batches",
       [](Subject& s, Dice& d) {
         return split_life(s, d, BufferKind::Temporary, false, "lacks the micro-batches before");
       }},
      {"an output's rows dropped between micro-batches",
       [](Subject& s, Dice& d) { return split_life(s, d, BufferKind::Output, true, "loses the rows"); }},
      {"an output's sum dropped between micro-batches",
       [](Subject& s, Dice& d) {
         return split_life(s, d, BufferKind::Output, false, "loses the rows|lacks the micro-batches before");
       }},
      {"input of one micro-batch", [](Subject& s, Dice& d) { return shrink_whole(s, d, BufferKind::Input); }},
      {"output of one micro-batch", [](Subject& s, Dice& d) { return shrink_whole(s, d, BufferKind::Output); }},
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
      {"a partial sum read in micro-batches",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_sum(s, d, 0);
         if (i < 0) return {};
         const BufferId sum = work_at(s, i).writes[0];
         const int32_t reader = pick(s.problem.tasks, d, [&](const Task& t, int32_t n) {
           return n > s.plan.actions[i].task && t.batch_rule == BatchRule::Rows;
         });
         if (reader < 0) return {};
         s.problem.tasks[reader].reads.push_back(sum);
         return {"needs the whole of", s.problem.buffers[sum].name};
       }},
      {"a sum over micro-batches called bit-identical",
       [](Subject& s, Dice&) -> Words {
         if (!is_split(s)) return {};
         s.plan.exactness = Exactness::BitIdentical;
         return {"not bit-identical"};
       }},
  };
}

}  // namespace plimsoll::testing
