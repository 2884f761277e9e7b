// Faults of where things lie: offsets, sizes, the arena, and in whose place.
#include <algorithm>

#include "plan/faults.h"

namespace plimsoll::testing {
namespace {

constexpr Bytes kHuge = std::numeric_limits<Bytes>::max() / kAlignment * kAlignment;

bool is_variable(const Subject& s, const Life& life) { return testing::is_variable(s, life.buffer); }

bool is_loose(const Subject& s, const Life& life) { return !is_variable(s, life) && life.bytes > 0; }

// Both are alive at an action where neither takes over from the other, so no rule lets them share bytes.
bool meet(const Life& a, const Life& b) { return a.first_action < b.last_action && b.first_action < a.last_action; }

int32_t pick_loose(Subject& s, Dice& dice) {
  return pick(s.plan.lives, dice, [&](const Life& life, int32_t) { return is_loose(s, life); });
}

int32_t pick_value(Subject& s, Dice& dice) {
  return pick(s.plan.lives, dice,
              [&](const Life& life, int32_t) { return is_loose(s, life) && life.buffer != kWorkspace; });
}

int32_t pick_scratch(Subject& s, Dice& dice) {
  return pick(s.plan.lives, dice,
              [](const Life& life, int32_t) { return life.buffer == kWorkspace && life.bytes > 0; });
}

// Changes one life and expects these words beside its name.
Words change(Subject& s, int32_t i, void (*to)(Life&), const char* words) {
  if (i < 0) return {};
  to(s.plan.lives[i]);
  return {words, s.plan.lives[i].buffer == kWorkspace ? "workspace" : name_of(s, s.plan.lives[i])};
}

// Moves a life onto another that it meets, from `shift` bytes past its start.
Words collide(Subject& s, Dice& dice, bool (*may)(const Life&, const Life&), Bytes (*place)(const Life&, const Life&)) {
  const std::vector<Life>& lives = s.plan.lives;
  int32_t other = -1;
  const int32_t i = pick(lives, dice, [&](const Life& life, int32_t) {
    return is_loose(s, life) && life.buffer != kWorkspace &&
           std::any_of(lives.begin(), lives.end(), [&](const Life& o) {
             return is_loose(s, o) && meet(life, o) && may(life, o) && place(life, o) >= 0;
           });
  });
  if (i < 0) return {};
  other = pick(lives, dice, [&](const Life& o, int32_t) {
    return is_loose(s, o) && meet(lives[i], o) && may(lives[i], o) && place(lives[i], o) >= 0;
  });
  if (s.plan.lives[other].buffer == s.plan.lives[i].buffer) return {};
  move_life(s.plan, s.plan.lives[i], place(lives[i], lives[other]));
  s.limits.bytes = std::max(s.limits.bytes, s.plan.arena_bytes);
  return {"overlaps", name_of(s, s.plan.lives[i])};
}

bool any(const Life&, const Life&) { return true; }
bool is_below(const Life& a, const Life& b) { return a.offset + a.bytes == b.offset; }

// A workspace onto something that is alive at its action.
Words workspace_onto(Subject& s, Dice& dice, bool (*may)(const Subject&, const Life&, int32_t)) {
  std::vector<Life>& lives = s.plan.lives;
  const auto fits = [&](const Life& workspace, const Life& o) {
    return o.buffer != kWorkspace && o.bytes > 0 && o.first_action <= workspace.first_action &&
           o.last_action >= workspace.first_action && may(s, o, workspace.first_action);
  };
  const int32_t i = pick(lives, dice, [&](const Life& life, int32_t) {
    return life.buffer == kWorkspace && life.bytes > 0 &&
           std::any_of(lives.begin(), lives.end(), [&](const Life& o) { return fits(life, o); });
  });
  if (i < 0) return {};
  const int32_t other = pick(lives, dice, [&](const Life& o, int32_t) { return fits(lives[i], o); });
  move_life(s.plan, lives[i], lives[other].offset);
  s.limits.bytes = std::max(s.limits.bytes, s.plan.arena_bytes);
  return {"overlaps", name_of(s, lives[i])};
}

// The value that a task writes goes to the place of one that it reads.
Words write_onto_read(Subject& s, Dice& dice, bool (*may)(const Subject&, const Life&, const Life&)) {
  std::vector<Life>& lives = s.plan.lives;
  const auto fits = [&](const Life& after, const Life& before) {
    if (before.buffer == kWorkspace || before.bytes == 0 || before.offset == after.offset) return false;
    if (before.first_action > after.first_action || before.last_action < after.first_action) return false;
    return reads(work_at(s, after.first_action), before.buffer) && may(s, before, after);
  };
  const auto starts = [&](const Life& life) {
    return is_loose(s, life) && life.buffer != kWorkspace && is_run(s, s.plan.actions[life.first_action]) &&
           writes(work_at(s, life.first_action), life.buffer);
  };
  const int32_t i = pick(lives, dice, [&](const Life& life, int32_t) {
    return starts(life) && std::any_of(lives.begin(), lives.end(), [&](const Life& o) { return fits(life, o); });
  });
  if (i < 0) return {};
  const int32_t other = pick(lives, dice, [&](const Life& o, int32_t) { return fits(lives[i], o); });
  move_life(s.plan, lives[i], lives[other].offset);
  s.limits.bytes = std::max(s.limits.bytes, s.plan.arena_bytes);
  return {"overlaps", name_of(s, lives[i])};
}

bool may_share(const Subject& s, const Life& before, const Life& after) {
  const Work& work = work_at(s, after.first_action);
  return std::any_of(work.may_share.begin(), work.may_share.end(), [&](const InPlace& pair) {
    return work.reads[pair.read] == before.buffer && work.writes[pair.write] == after.buffer;
  });
}

// A value that took the place of another.
int32_t pick_heir(Subject& s, Dice& dice, int32_t& before) {
  const auto gave = [&](const Life& after, const Life& o) {
    return o.buffer != kWorkspace && o.buffer != after.buffer && o.bytes > 0 && o.offset == after.offset &&
           o.last_action == after.first_action && o.first_action < o.last_action;
  };
  const std::vector<Life>& lives = s.plan.lives;
  const int32_t i = pick(lives, dice, [&](const Life& life, int32_t) {
    return is_loose(s, life) && life.buffer != kWorkspace && life.last_action > life.first_action &&
           std::any_of(lives.begin(), lives.end(), [&](const Life& o) { return gave(life, o); });
  });
  if (i >= 0) before = pick(lives, dice, [&](const Life& o, int32_t) { return gave(lives[i], o); });
  return i;
}

Words with_arena(Subject& s, Bytes bytes, const char* words) {
  s.plan.arena_bytes = bytes;
  return {words};
}

}  // namespace

std::vector<Fault> place_faults() {
  return {
      {"one alignment up, onto the next",
       [](Subject& s, Dice& d) {
         return collide(s, d, is_below, [](const Life& a, const Life&) { return a.offset + kAlignment; });
       }},
      {"one alignment down, onto the one before",
       [](Subject& s, Dice& d) {
         return collide(
             s, d, [](const Life& a, const Life& b) { return is_below(b, a); },
             [](const Life& a, const Life&) { return a.offset - kAlignment; });
       }},
      {"onto the same place",
       [](Subject& s, Dice& d) { return collide(s, d, any, [](const Life&, const Life& b) { return b.offset; }); }},
      {"onto the last bytes of another",
       [](Subject& s, Dice& d) {
         return collide(s, d, any, [](const Life&, const Life& b) { return b.offset + b.bytes - kAlignment; });
       }},
      {"its last bytes onto another",
       [](Subject& s, Dice& d) {
         return collide(s, d, any, [](const Life& a, const Life& b) { return b.offset - a.bytes + kAlignment; });
       }},
      {"inside a larger one",
       [](Subject& s, Dice& d) {
         return collide(
             s, d, [](const Life& a, const Life& b) { return a.bytes + 2 * kAlignment <= b.bytes; },
             [](const Life&, const Life& b) { return b.offset + kAlignment; });
       }},
      {"around a smaller one",
       [](Subject& s, Dice& d) {
         return collide(
             s, d, [](const Life& a, const Life& b) { return b.bytes + 2 * kAlignment <= a.bytes; },
             [](const Life&, const Life& b) { return b.offset - kAlignment; });
       }},
      {"onto a variable",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_value(s, d);
         const int32_t v =
             pick(s.plan.lives, d, [&](const Life& l, int32_t) { return is_variable(s, l) && l.bytes > 0; });
         if (i < 0 || v < 0) return {};
         move_life(s.plan, s.plan.lives[i], s.plan.lives[v].offset);
         return {"overlaps", name_of(s, s.plan.lives[i])};
       }},
      {"workspace onto what the task reads",
       [](Subject& s, Dice& d) {
         return workspace_onto(s, d, [](const Subject& x, const Life& o, int32_t at) {
           return reads(work_at(x, at), o.buffer) && !is_variable(x, o);
         });
       }},
      {"workspace onto what the task writes",
       [](Subject& s, Dice& d) {
         return workspace_onto(
             s, d, [](const Subject& x, const Life& o, int32_t at) { return writes(work_at(x, at), o.buffer); });
       }},
      {"workspace onto a variable",
       [](Subject& s, Dice& d) {
         return workspace_onto(s, d, [](const Subject& x, const Life& o, int32_t) { return is_variable(x, o); });
       }},
      {"workspace onto what others need later",
       [](Subject& s, Dice& d) {
         return workspace_onto(s, d, [](const Subject& x, const Life& o, int32_t at) {
           return !reads(work_at(x, at), o.buffer) && !writes(work_at(x, at), o.buffer) && !is_variable(x, o);
         });
       }},
      {"not aligned, by one byte",
       [](Subject& s, Dice& d) {
         return change(
             s, pick_loose(s, d), [](Life& l) { ++l.offset; }, "not aligned");
       }},
      {"not aligned, by half",
       [](Subject& s, Dice& d) {
         return change(
             s, pick_loose(s, d), [](Life& l) { l.offset += kAlignment / 2; }, "not aligned");
       }},
      {"below zero",
       [](Subject& s, Dice& d) {
         return change(
             s, pick_loose(s, d), [](Life& l) { l.offset = -kAlignment; }, "not aligned");
       }},
      {"far below zero",
       [](Subject& s, Dice& d) {
         return change(
             s, pick_loose(s, d), [](Life& l) { l.offset = std::numeric_limits<Bytes>::min(); }, "not aligned");
       }},
      {"past the arena",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_loose(s, d);
         if (i < 0) return {};
         s.plan.lives[i].offset = s.plan.arena_bytes;
         return {"ends past the arena"};
       }},
      {"far past the arena",
       [](Subject& s, Dice& d) {
         return change(
             s, pick_loose(s, d), [](Life& l) { l.offset = kHuge; }, "ends past the arena");
       }},
      {"value too small",
       [](Subject& s, Dice& d) {
         return change(
             s, pick_value(s, d), [](Life& l) { l.bytes -= kAlignment; }, "needs");
       }},
      {"value too large",
       [](Subject& s, Dice& d) {
         return change(
             s, pick_value(s, d), [](Life& l) { l.bytes += kAlignment; }, "needs");
       }},
      {"value of no size",
       [](Subject& s, Dice& d) {
         return change(
             s, pick_value(s, d), [](Life& l) { l.bytes = 0; }, "needs");
       }},
      {"size below zero",
       [](Subject& s, Dice& d) {
         return change(
             s, pick_loose(s, d), [](Life& l) { l.bytes = -l.bytes; }, "needs");
       }},
      {"size not rounded up",
       [](Subject& s, Dice& d) {
         return change(
             s, pick_loose(s, d), [](Life& l) { --l.bytes; }, "needs");
       }},
      {"endless size",
       [](Subject& s, Dice& d) {
         return change(
             s, pick_loose(s, d), [](Life& l) { l.bytes = kHuge; }, "needs");
       }},
      {"variable too small",
       [](Subject& s, Dice& d) {
         return change(
             s, pick(s.plan.lives, d, [&](const Life& l, int32_t) { return is_variable(s, l) && l.bytes > 0; }),
             [](Life& l) { l.bytes -= kAlignment; }, "needs");
       }},
      {"workspace too small",
       [](Subject& s, Dice& d) {
         return change(
             s, pick_scratch(s, d), [](Life& l) { l.bytes -= kAlignment; }, "needs");
       }},
      {"workspace too large",
       [](Subject& s, Dice& d) {
         return change(
             s, pick_scratch(s, d), [](Life& l) { l.bytes += kAlignment; }, "needs");
       }},
      {"value of one sample less",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick(s.plan.lives, d, [&](const Life& l, int32_t) {
           return l.buffer != kWorkspace && s.problem.buffers[l.buffer].per_sample_bytes >= kAlignment;
         });
         if (i < 0) return {};
         Life& life = s.plan.lives[i];
         life.bytes -= round_up(s.problem.buffers[life.buffer].per_sample_bytes, kAlignment);
         return {"needs", name_of(s, life)};
       }},
      {"arena too small",
       [](Subject& s, Dice&) { return with_arena(s, s.plan.arena_bytes - kAlignment, "past the arena"); }},
      {"arena too large",
       [](Subject& s, Dice&) { return with_arena(s, s.plan.arena_bytes + kAlignment, "contents end"); }},
      {"arena of one byte more",
       [](Subject& s, Dice&) { return with_arena(s, s.plan.arena_bytes + 1, "contents end"); }},
      {"no arena", [](Subject& s, Dice&) { return with_arena(s, 0, "ends past the arena"); }},
      {"arena below zero", [](Subject& s, Dice&) { return with_arena(s, -kAlignment, "the arena has"); }},
      {"arena far below zero",
       [](Subject& s, Dice&) { return with_arena(s, std::numeric_limits<Bytes>::min(), "the arena has"); }},
      {"endless arena", [](Subject& s, Dice&) { return with_arena(s, kHuge, "contents end"); }},
      {"one byte over the line",
       [](Subject& s, Dice&) -> Words {
         s.limits.bytes = s.plan.arena_bytes - 1;
         return {"over the line"};
       }},
      {"no line at all",
       [](Subject& s, Dice&) -> Words {
         s.limits.bytes = 0;
         return {"over the line"};
       }},
      {"variable moved",
       [](Subject& s, Dice& d) -> Words {
         const int32_t v = pick(s.plan.lives, d, [&](const Life& l, int32_t) { return is_variable(s, l); });
         if (v < 0) return {};
         move_life(s.plan, s.plan.lives[v], s.plan.arena_bytes);
         s.limits.bytes = s.plan.arena_bytes;
         return {"lies at byte", name_of(s, s.plan.lives[v])};
       }},
      {"variables exchanged",
       [](Subject& s, Dice& d) -> Words {
         const int32_t a =
             pick(s.plan.lives, d, [&](const Life& l, int32_t) { return is_variable(s, l) && l.bytes > 0; });
         if (a < 0) return {};
         const int32_t b = pick(s.plan.lives, d, [&](const Life& l, int32_t i) {
           return is_variable(s, l) && i != a && l.bytes == s.plan.lives[a].bytes;
         });
         if (b < 0) return {};
         std::swap(s.plan.lives[a].offset, s.plan.lives[b].offset);
         return {"lies at byte", name_of(s, s.plan.lives[a]) + "|" + name_of(s, s.plan.lives[b])};
       }},
      {"too few bytes of variables",
       [](Subject& s, Dice&) -> Words {
         s.plan.variable_bytes -= kAlignment;
         return {"variables take"};
       }},
      {"too many bytes of variables",
       [](Subject& s, Dice&) -> Words {
         if (s.plan.variable_bytes + kAlignment > s.plan.arena_bytes) return {};
         s.plan.variable_bytes += kAlignment;
         return {"variables take"};
       }},
      {"in place where the task forbids it",
       [](Subject& s, Dice& d) {
         return write_onto_read(s, d, [](const Subject& x, const Life& before, const Life& after) {
           return before.last_action == after.first_action && !may_share(x, before, after) && !is_variable(x, before);
         });
       }},
      {"in place of what is needed later",
       [](Subject& s, Dice& d) {
         return write_onto_read(s, d, [](const Subject& x, const Life& before, const Life& after) {
           return before.last_action > after.first_action && !is_variable(x, before) && may_share(x, before, after);
         });
       }},
      {"in place of a variable",
       [](Subject& s, Dice& d) {
         return write_onto_read(
             s, d, [](const Subject& x, const Life& before, const Life&) { return is_variable(x, before); });
       }},
      {"in place of what is read twice",
       [](Subject& s, Dice& d) {
         return write_onto_read(s, d, [](const Subject& x, const Life& before, const Life& after) {
           const Work& work = work_at(x, after.first_action);
           return std::count(work.reads.begin(), work.reads.end(), before.buffer) > 1 && may_share(x, before, after);
         });
       }},
      {"heir one alignment off",
       [](Subject& s, Dice& d) -> Words {
         int32_t before = -1;
         const int32_t i = pick_heir(s, d, before);
         if (i < 0 || s.plan.lives[before].bytes <= kAlignment) return {};
         move_life(s.plan, s.plan.lives[i], s.plan.lives[i].offset + kAlignment);
         s.limits.bytes = std::max(s.limits.bytes, s.plan.arena_bytes);
         return {"overlaps", name_of(s, s.plan.lives[i])};
       }},
      {"what gave its place away lives on",
       [](Subject& s, Dice& d) -> Words {
         int32_t before = -1;
         if (pick_heir(s, d, before) < 0) return {};
         ++s.plan.lives[before].last_action;
         return {"overlaps", name_of(s, s.plan.lives[before])};
       }},
      {"heir comes an action early",
       [](Subject& s, Dice& d) -> Words {
         int32_t before = -1;
         const int32_t i = pick_heir(s, d, before);
         if (i < 0) return {};
         --s.plan.lives[i].first_action;
         const std::string name = name_of(s, s.plan.lives[i]);
         sort_lives(s.plan);
         return {"overlaps", name};
       }},
      {"in the rest of a place before it is free",
       [](Subject& s, Dice& d) -> Words {
         int32_t before = -1;
         const int32_t i = pick_heir(s, d, before);
         if (i < 0 || s.plan.lives[before].bytes <= s.plan.lives[i].bytes) return {};
         s.plan.lives.push_back({kWorkspace, s.plan.lives[i].first_action, s.plan.lives[i].first_action,
                                 s.plan.lives[i].offset + s.plan.lives[i].bytes, kAlignment});
         TaskId task = s.plan.actions[s.plan.lives[i].first_action].task;
         if (s.problem.tasks[task].workspace_fixed_bytes != 0) return {};
         s.problem.tasks[task].workspace_fixed_bytes = kAlignment;
         sort_lives(s.plan);
         return {"overlaps", "workspace of " + s.problem.tasks[task].name};
       }},
  };
}

}  // namespace plimsoll::testing
