// Faults of when things live: too short, too long, twice or not at all.
#include <algorithm>

#include "plan/faults.h"

namespace plimsoll::testing {
namespace {

using Kind = BufferKind;

bool is(const Subject& s, const Life& life, Kind kind) {
  if (kind == Kind::Variable) return is_variable(s, life.buffer);
  return life.buffer != kWorkspace && s.problem.buffers[life.buffer].kind == kind;
}

int32_t pick_kind(Subject& s, Dice& dice, Kind kind) {
  return pick(s.plan.lives, dice, [&](const Life& life, int32_t) { return is(s, life, kind); });
}

bool runs(const Subject& s, int32_t action) { return is_run(s, s.plan.actions[action]); }

bool is_read_at(const Subject& s, const Life& life, int32_t action) {
  return runs(s, action) && reads(work_at(s, action), life.buffer);
}

bool is_written_at(const Subject& s, const Life& life, int32_t action) {
  return runs(s, action) && writes(work_at(s, action), life.buffer);
}

// A value that is written at the start of its life and read at its end.
int32_t pick_used(Subject& s, Dice& dice, int32_t least_steps) {
  return pick(s.plan.lives, dice, [&](const Life& life, int32_t) {
    return is(s, life, Kind::Temporary) && life.last_action - life.first_action >= least_steps &&
           is_read_at(s, life, life.last_action) && is_written_at(s, life, life.first_action);
  });
}

// The nearest life in time that shares bytes with this one, after or before it.
int32_t neighbour(const Subject& s, const Life& life, bool after) {
  int32_t best = -1;
  for (size_t i = 0; i < s.plan.lives.size(); ++i) {
    const Life& o = s.plan.lives[i];
    if (o.offset >= life.offset + life.bytes || life.offset >= o.offset + o.bytes) continue;
    if (after ? o.first_action <= life.last_action : o.last_action >= life.first_action) continue;
    const bool is_nearer = best < 0 || (after ? o.first_action < s.plan.lives[best].first_action
                                              : o.last_action > s.plan.lives[best].last_action);
    if (is_nearer) best = static_cast<int32_t>(i);
  }
  return best;
}

// Grows a value's life until it meets the neighbour that has its place, and an action more where there is one.
Words grow(Subject& s, Dice& dice, bool after) {
  const int32_t i = pick(s.plan.lives, dice, [&](const Life& life, int32_t) {
    if (!is(s, life, Kind::Temporary) || life.bytes == 0) return false;
    const int32_t n = neighbour(s, life, after);
    return n >= 0 && s.plan.lives[n].last_action > s.plan.lives[n].first_action &&
           s.plan.lives[n].buffer != life.buffer;
  });
  if (i < 0) return {};
  const Life& other = s.plan.lives[neighbour(s, s.plan.lives[i], after)];
  if (after)
    s.plan.lives[i].last_action = other.first_action + 1;
  else
    s.plan.lives[i].first_action = other.last_action - 1;
  const std::string name = name_of(s, s.plan.lives[i]);
  sort_lives(s.plan);
  return {"overlaps", name};
}

Words drop(Subject& s, int32_t i, Words words) {
  if (i < 0) return {};
  words.push_back(name_of(s, s.plan.lives[i]));
  s.plan.lives.erase(s.plan.lives.begin() + i);
  fit_arena(s.plan);
  return words;
}

Words span(Subject& s, Dice& dice, void (*to)(Life&, int32_t actions)) {
  const int32_t i = pick(s.plan.lives, dice, [](const Life&, int32_t) { return true; });
  to(s.plan.lives[i], static_cast<int32_t>(s.plan.actions.size()));
  return {"spans actions"};
}

Words rename(Subject& s, Dice& dice, BufferId to) {
  const int32_t i = pick(s.plan.lives, dice, [](const Life&, int32_t) { return true; });
  s.plan.lives[i].buffer = to;
  return {"is of buffer", "does not exist"};
}

// A second life beside the first, at a place of its own.
Words double_life(Subject& s, int32_t i, Words words) {
  if (i < 0) return {};
  words.push_back(name_of(s, s.plan.lives[i]));
  Life copy = s.plan.lives[i];
  copy.offset = s.plan.arena_bytes;
  s.plan.lives.push_back(copy);
  sort_lives(s.plan);
  fit_arena(s.plan);
  s.limits.bytes = s.plan.arena_bytes;
  return words;
}

int32_t pick_scratch(Subject& s, Dice& dice, int32_t first, int32_t last_but) {
  const auto actions = static_cast<int32_t>(s.plan.actions.size());
  return pick(s.plan.lives, dice, [&](const Life& life, int32_t) {
    return life.buffer == kWorkspace && life.first_action >= first && life.first_action < actions - last_but;
  });
}

}  // namespace

std::vector<Fault> time_faults() {
  return {
      {"ends an action early",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_used(s, d, 1);
         if (i < 0) return {};
         --s.plan.lives[i].last_action;
         return {"dropped after|overlaps", name_of(s, s.plan.lives[i])};
       }},
      {"ends as soon as it is written",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_used(s, d, 2);
         if (i < 0) return {};
         s.plan.lives[i].last_action = s.plan.lives[i].first_action;
         // A sum over micro-batches is written a second time, at a moment when it has no place.
         return {"dropped after|overlaps|is moved|has no place", name_of(s, s.plan.lives[i])};
       }},
      {"starts an action late",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_used(s, d, 1);
         if (i < 0) return {};
         const std::string name = name_of(s, s.plan.lives[i]);
         ++s.plan.lives[i].first_action;
         sort_lives(s.plan);
         return {"has no place|overlaps|which lacks|loses", name};
       }},
      {"starts with its last use",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_used(s, d, 1);
         if (i < 0) return {};
         const std::string name = name_of(s, s.plan.lives[i]);
         s.plan.lives[i].first_action = s.plan.lives[i].last_action;
         sort_lives(s.plan);
         return {"has no place|overlaps|dropped after|before it has", name};
       }},
      {"lives into the next", [](Subject& s, Dice& d) { return grow(s, d, true); }},
      {"lives before the last one left", [](Subject& s, Dice& d) { return grow(s, d, false); }},
      {"value without a life",
       [](Subject& s, Dice& d) {
         return drop(s, pick_used(s, d, 0), {"no place|dropped after|before it has|overlaps|contents end"});
       }},
      {"input without a life", [](Subject& s, Dice& d) { return drop(s, pick_kind(s, d, Kind::Input), {"place"}); }},
      {"output without a life",
       [](Subject& s, Dice& d) { return drop(s, pick_kind(s, d, Kind::Output), {"no place|before it has"}); }},
      {"variable without a life",
       [](Subject& s, Dice& d) { return drop(s, pick_kind(s, d, Kind::Variable), {"has no place"}); }},
      {"action without its workspace",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_scratch(s, d, 0, 0);
         if (i < 0 || s.plan.lives[i].bytes == 0) return {};
         const std::string task = s.problem.tasks[s.plan.actions[s.plan.lives[i].first_action].task].name;
         s.plan.lives.erase(s.plan.lives.begin() + i);
         fit_arena(s.plan);
         return {"has no workspace", task};
       }},
      {"no workspace at all",
       [](Subject& s, Dice&) -> Words {
         if (std::erase_if(s.plan.lives, [](const Life& l) { return l.buffer == kWorkspace && l.bytes > 0; }) == 0)
           return {};
         fit_arena(s.plan);
         return {"has no workspace"};
       }},
      {"no lives at all",
       [](Subject& s, Dice&) -> Words {
         s.plan.lives.clear();
         s.plan.arena_bytes = s.plan.variable_bytes;
         return {"has no workspace|has no place|before it has a place"};
       }},
      {"the same life twice",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick(s.plan.lives, d, [](const Life& l, int32_t) { return l.buffer != kWorkspace; });
         const Life copy = s.plan.lives[i];
         s.plan.lives.insert(s.plan.lives.begin() + i, copy);
         return {"overlaps|two places", name_of(s, copy)};
       }},
      {"value in two places",
       [](Subject& s, Dice& d) { return double_life(s, pick_kind(s, d, Kind::Temporary), {"two places"}); }},
      {"input in two places",
       [](Subject& s, Dice& d) { return double_life(s, pick_kind(s, d, Kind::Input), {"two places"}); }},
      {"output in two places",
       [](Subject& s, Dice& d) { return double_life(s, pick_kind(s, d, Kind::Output), {"two places"}); }},
      {"variable in two places",
       [](Subject& s, Dice& d) {
         return double_life(s, pick_kind(s, d, Kind::Variable), {"two places|lies at byte"});
       }},
      {"workspace twice",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_scratch(s, d, 0, 0);
         if (i < 0) return {};
         const Life copy = s.plan.lives[i];
         s.plan.lives.insert(s.plan.lives.begin() + i, copy);
         return {"has workspace twice"};
       }},
      {"workspace an action longer",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_scratch(s, d, 0, 1);
         if (i < 0) return {};
         ++s.plan.lives[i].last_action;
         return {"workspace outlives action"};
       }},
      {"workspace an action early",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_scratch(s, d, 1, 0);
         if (i < 0) return {};
         --s.plan.lives[i].first_action;
         sort_lives(s.plan);
         return {"workspace outlives action"};
       }},
      {"workspace at another task's action",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_scratch(s, d, 0, 0);
         const int32_t at = pick(s.plan.actions, d, [&](const Action& action, int32_t n) {
           return is_run(s, action) && workspace_bytes(work_at(s, n), s.plan.micro_batches[action.micro_batch]) == 0;
         });
         if (i < 0 || at < 0 || s.plan.lives[i].bytes == 0) return {};
         s.plan.lives[i].first_action = s.plan.lives[i].last_action = at;
         const std::string name = name_of(s, s.plan.lives[i]);
         sort_lives(s.plan);
         return {"needs 0 bytes", name};
       }},
      {"variable starts late",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_kind(s, d, Kind::Variable);
         if (i < 0 || s.plan.actions.size() < 2) return {};
         const std::string name = name_of(s, s.plan.lives[i]);
         s.plan.lives[i].first_action = 1;
         sort_lives(s.plan);
         return {"lives only from action 1", name};
       }},
      {"variable ends early",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_kind(s, d, Kind::Variable);
         if (i < 0 || s.plan.actions.size() < 2) return {};
         --s.plan.lives[i].last_action;
         return {"lives only from action 0", name_of(s, s.plan.lives[i])};
       }},
      {"input comes late",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick(s.plan.lives, d, [&](const Life& l, int32_t) {
           return is(s, l, Kind::Input) && l.first_action == 0 && l.last_action > 0;
         });
         if (i < 0) return {};
         const std::string name = name_of(s, s.plan.lives[i]);
         s.plan.lives[i].first_action = 1;
         sort_lives(s.plan);
         return {"has no place before action 1|before it has a place", name};
       }},
      {"input dropped before its last use",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick(s.plan.lives, d, [&](const Life& l, int32_t) {
           return is(s, l, Kind::Input) && l.last_action > 0 && is_read_at(s, l, l.last_action);
         });
         if (i < 0) return {};
         --s.plan.lives[i].last_action;
         return {"dropped after|overlaps", name_of(s, s.plan.lives[i])};
       }},
      {"output dropped before the end",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick(s.plan.lives, d, [&](const Life& l, int32_t) {
           return is(s, l, Kind::Output) && l.last_action > l.first_action;
         });
         if (i < 0) return {};
         --s.plan.lives[i].last_action;
         return {"dropped", name_of(s, s.plan.lives[i])};
       }},
      {"lives in the wrong order",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick(s.plan.lives, d, [&](const Life& l, int32_t n) {
           return n > 0 && l.first_action > s.plan.lives[n - 1].first_action;
         });
         if (i < 0) return {};
         std::swap(s.plan.lives[i], s.plan.lives[i - 1]);
         return {"listed after", name_of(s, s.plan.lives[i])};
       }},
      {"ends before it starts",
       [](Subject& s, Dice& d) { return span(s, d, [](Life& l, int32_t) { l.last_action = l.first_action - 1; }); }},
      {"starts before the first action",
       [](Subject& s, Dice& d) { return span(s, d, [](Life& l, int32_t) { l.first_action = -1; }); }},
      {"ends after the last action",
       [](Subject& s, Dice& d) { return span(s, d, [](Life& l, int32_t actions) { l.last_action = actions; }); }},
      {"lives for all time",
       [](Subject& s, Dice& d) {
         return span(s, d, [](Life& l, int32_t) {
           l.first_action = std::numeric_limits<int32_t>::min();
           l.last_action = std::numeric_limits<int32_t>::max();
         });
       }},
      {"life of a buffer past the last",
       [](Subject& s, Dice& d) { return rename(s, d, static_cast<BufferId>(s.problem.buffers.size())); }},
      {"life of a buffer below zero", [](Subject& s, Dice& d) { return rename(s, d, -2); }},
      {"life of a buffer far away",
       [](Subject& s, Dice& d) { return rename(s, d, std::numeric_limits<BufferId>::max()); }},
      {"life given to a buffer of another size",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_used(s, d, 0);
         if (i < 0) return {};
         const int64_t samples = *std::max_element(s.plan.micro_batches.begin(), s.plan.micro_batches.end());
         const int32_t to = pick(s.problem.buffers, d, [&](const Buffer& b, int32_t) {
           return b.kind == Kind::Temporary && placed_bytes(b, samples) != s.plan.lives[i].bytes;
         });
         if (to < 0) return {};
         s.plan.lives[i].buffer = to;
         return {"needs", s.problem.buffers[to].name};
       }},
      {"life given to a buffer of the same size",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_used(s, d, 0);
         if (i < 0) return {};
         const int32_t to = pick(s.problem.buffers, d, [&](const Buffer& b, int32_t n) {
           return b.kind == Kind::Temporary && n != s.plan.lives[i].buffer &&
                  b.fixed_bytes == s.problem.buffers[s.plan.lives[i].buffer].fixed_bytes &&
                  b.per_sample_bytes == s.problem.buffers[s.plan.lives[i].buffer].per_sample_bytes;
         });
         if (to < 0) return {};
         const std::string was = name_of(s, s.plan.lives[i]);
         s.plan.lives[i].buffer = to;
         return {"place|dropped after|before anything|overlaps", was + "|" + s.problem.buffers[to].name};
       }},
  };
}

}  // namespace plimsoll::testing
