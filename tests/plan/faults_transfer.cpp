// Faults of transfers to and from the scratch file, of variants, and of what a plan only tells.
#include <algorithm>

#include "plan/faults.h"

namespace plimsoll::testing {
namespace {

enum class Kind : uint8_t { Save, Load };

bool is_of(const Subject& s, const Action& action, Kind kind) {
  return kind == Kind::Save ? is_save(s, action) : is_load(s, action);
}

// A transfer whose buffer is also moved the other way.
int32_t pick_transfer(Subject& s, Dice& dice, Kind kind) {
  const Kind other = kind == Kind::Save ? Kind::Load : Kind::Save;
  return pick(s.plan.actions, dice, [&](const Action& action, int32_t n) {
    if (!is_of(s, action, kind)) return false;
    for (size_t o = 0; o < s.plan.actions.size(); ++o)
      if (is_of(s, s.plan.actions[o], other) && moved_at(s, static_cast<int32_t>(o)) == moved_at(s, n)) return true;
    return false;
  });
}

// Changes the task of a transfer.
Words set_transfer(Subject& s, Dice& dice, Kind kind, void (*to)(Subject&, Task&), const char* words) {
  const int32_t i = pick_transfer(s, dice, kind);
  if (i < 0) return {};
  to(s, s.plan.transfers[s.plan.actions[i].task - s.problem.tasks.size()]);
  return {words};
}

// Somewhere between the save and the load of one buffer.
bool find_gap(Subject& s, Dice& dice, int32_t& save, int32_t& load) {
  save = pick_transfer(s, dice, Kind::Save);
  if (save < 0) return false;
  load = pick(s.plan.actions, dice, [&](const Action& action, int32_t n) {
    return n > save && is_load(s, action) && moved_at(s, n) == moved_at(s, save);
  });
  return load >= 0;
}

std::string name_at(const Subject& s, int32_t action) { return s.problem.buffers[moved_at(s, action)].name; }

Words set_variant(Subject& s, int32_t variant, Words words) {
  for (Action& action : s.plan.actions)
    if (action.variant >= 0 && s.problem.tasks[action.task].variants.size() > 1) {
      action.variant = variant;
      return words;
    }
  return {};
}

template <typename Field, typename Value>
Words set_field(Subject& s, Field Plan::*field, Value value, const char* words) {
  s.plan.*field = static_cast<Field>(value);
  return {words};
}

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

std::vector<Fault> transfer_faults() {
  return {
      {"never saved",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_transfer(s, d, Kind::Save);
         if (i < 0) return {};
         const std::string name = name_at(s, i);
         remove_action(s, i);
         return {"never saved before|is stored as", name};
       }},
      {"never loaded",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_transfer(s, d, Kind::Load);
         if (i < 0) return {};
         const std::string name = name_at(s, i);
         remove_action(s, i);
         return {"before anything wrote it|lacks the micro-batches before|dropped after", name};
       }},
      {"loaded before it is saved",
       [](Subject& s, Dice& d) -> Words {
         int32_t save = -1, load = -1;
         if (!find_gap(s, d, save, load)) return {};
         std::swap(s.plan.actions[save], s.plan.actions[load]);
         return {"never saved before", name_at(s, save)};
       }},
      {"saved where it should be loaded",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_transfer(s, d, Kind::Load);
         if (i < 0) return {};
         s.plan.actions[i] = save_action(s.plan, s.problem, moved_at(s, i));
         return {"is saved at action", "before anything wrote it", name_at(s, i)};
       }},
      {"loaded where it should be saved",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_transfer(s, d, Kind::Save);
         if (i < 0) return {};
         s.plan.actions[i] = load_action(s.plan, s.problem, moved_at(s, i));
         return {"never saved before|is stored as", name_at(s, i)};
       }},
      {"saved before it is made",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_transfer(s, d, Kind::Save);
         if (i < 0 || s.problem.buffers[moved_at(s, i)].kind == BufferKind::Variable) return {};
         const std::string name = name_at(s, i);
         move_action(s, i, 0);
         return {"is moved at action 0, where it has no place|is saved at action 0, before anything", name};
       }},
      {"saved after it was dropped",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_transfer(s, d, Kind::Save);
         if (i < 0) return {};
         const BufferId id = moved_at(s, i);
         const int32_t l = pick(s.plan.lives, d, [&](const Life& life, int32_t) {
           return life.buffer == id && life.last_action == i && life.first_action < i;
         });
         if (l < 0) return {};
         --s.plan.lives[l].last_action;
         return {"where it has no place", name_at(s, i)};
       }},
      {"place comes after the load",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_transfer(s, d, Kind::Load);
         if (i < 0) return {};
         const BufferId id = moved_at(s, i);
         const int32_t l = pick(s.plan.lives, d, [&](const Life& life, int32_t) {
           return life.buffer == id && life.first_action == i && life.last_action > i;
         });
         if (l < 0) return {};
         ++s.plan.lives[l].first_action;
         sort_lives(s.plan);
         return {"where it has no place", name_at(s, i)};
       }},
      {"another buffer loaded",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_transfer(s, d, Kind::Load);
         if (i < 0) return {};
         const std::string was = name_at(s, i);
         const int32_t to = pick(s.problem.buffers, d, [&](const Buffer& b, int32_t n) {
           return b.kind == BufferKind::Temporary && n != moved_at(s, i);
         });
         s.plan.actions[i] = load_action(s.plan, s.problem, to, s.plan.actions[i].micro_batch);
         return {"is moved|never saved|before anything wrote|instead of|lacks the micro-batches",
                 was + "|" + name_at(s, i)};
       }},
      {"another buffer saved",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_transfer(s, d, Kind::Save);
         if (i < 0) return {};
         const std::string was = name_at(s, i);
         const int32_t to = pick(s.problem.buffers, d, [&](const Buffer& b, int32_t n) {
           return b.kind == BufferKind::Temporary && n != moved_at(s, i);
         });
         s.plan.actions[i] = save_action(s.plan, s.problem, to, s.plan.actions[i].micro_batch);
         return {"is moved|never saved|is saved|is stored as", was + "|" + name_at(s, i)};
       }},
      {"an older value loaded",
       [](Subject& s, Dice& d) -> Words {
         const int32_t v = pick(s.problem.buffers, d, [&](const Buffer&, int32_t id) { return is_variable(s, id); });
         if (v < 0 || std::none_of(s.problem.tasks.begin(), s.problem.tasks.end(), [&](const Task& t) {
               return std::count(t.updates.begin(), t.updates.end(), v) > 0;
             }))
           return {};
         insert_action(s, 0, save_action(s.plan, s.problem, v));
         insert_action(s, static_cast<int32_t>(s.plan.actions.size()), load_action(s.plan, s.problem, v));
         s.limits.disk_bytes = Bytes{1} << 40;
         return {"ends with the value before the step", s.problem.buffers[v].name};
       }},
      {"read while it is away",
       [](Subject& s, Dice& d) -> Words {
         int32_t save = -1, load = -1;
         if (!find_gap(s, d, save, load)) return {};
         const BufferId id = moved_at(s, load);
         const int32_t reader = pick(s.plan.actions, d, [&](const Action& action, int32_t n) {
           return n > load && is_run(s, action) && reads(work_at(s, n), id);
         });
         if (reader < 0) return {};
         const std::string task = s.problem.tasks[s.plan.actions[reader].task].name;
         move_action(s, reader, load);
         return {"reads|writes", task};
       }},
      {"loaded onto another value",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_transfer(s, d, Kind::Load);
         if (i < 0) return {};
         const int32_t l = pick(s.plan.lives, d, [&](const Life& life, int32_t) {
           return life.buffer == moved_at(s, i) && life.first_action == i;
         });
         const int32_t other = pick(s.plan.lives, d, [&](const Life& life, int32_t) {
           return life.buffer != kWorkspace && life.first_action < i && life.last_action > i && life.bytes > 0 &&
                  s.problem.buffers[life.buffer].kind != BufferKind::Variable;
         });
         if (l < 0 || other < 0) return {};
         move_life(s.plan, s.plan.lives[l], s.plan.lives[other].offset);
         s.limits.bytes = std::max(s.limits.bytes, s.plan.arena_bytes);
         return {"overlaps", name_at(s, i)};
       }},
      {"buffer past the last loaded",
       [](Subject& s, Dice& d) {
         return set_transfer(
             s, d, Kind::Load,
             [](Subject& x, Task& task) { task.writes = {static_cast<BufferId>(x.problem.buffers.size())}; },
             "moves buffer");
       }},
      {"buffer below zero saved",
       [](Subject& s, Dice& d) {
         return set_transfer(
             s, d, Kind::Save, [](Subject&, Task& task) { task.reads = {-1}; }, "moves buffer -1");
       }},
      {"transfer for a micro-batch past the last",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_transfer(s, d, Kind::Save);
         if (i < 0) return {};
         s.plan.actions[i].micro_batch = 99;
         return {"runs micro-batch 99"};
       }},
      {"transfer on the lane of the computation",
       [](Subject& s, Dice& d) {
         return set_transfer(
             s, d, Kind::Save, [](Subject&, Task& task) { task.lane = Lane::Compute; }, "is not the disk's");
       }},
      {"transfer of two buffers",
       [](Subject& s, Dice& d) {
         return set_transfer(
             s, d, Kind::Load, [](Subject&, Task& task) { task.writes.push_back(0); }, "more or less than one buffer");
       }},
      {"transfer of none",
       [](Subject& s, Dice& d) {
         return set_transfer(
             s, d, Kind::Save, [](Subject&, Task& task) { task.reads.clear(); }, "more or less than one buffer");
       }},
      {"transfer that changes a value",
       [](Subject& s, Dice& d) {
         return set_transfer(
             s, d, Kind::Save, [](Subject&, Task& task) { task.updates.push_back(0); }, "more or less than one buffer");
       }},
      {"transfer with workspace",
       [](Subject& s, Dice& d) {
         return set_transfer(
             s, d, Kind::Load, [](Subject&, Task& task) { task.workspace_fixed_bytes = 64; },
             "has workspace, but only");
       }},
      {"transfer with a variant",
       [](Subject& s, Dice& d) {
         return set_transfer(
             s, d, Kind::Load, [](Subject&, Task& task) { task.variants.emplace_back(); }, "has variants, but only");
       }},
      {"transfer that takes less than no time",
       [](Subject& s, Dice& d) {
         return set_transfer(
             s, d, Kind::Load, [](Subject&, Task& task) { task.fixed_ns = -1; }, "is said to take -1 ns");
       }},
      {"action that is shorter than its disk is busy",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_transfer(s, d, Kind::Save);
         if (i < 0) return {};
         s.plan.transfers[s.plan.actions[i].task - s.problem.tasks.size()].fixed_ns = s.plan.predicted_ns + 1e6;
         return {"its disk lane alone is busy"};
       }},
      {"transfer in another memory",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_transfer(s, d, Kind::Save);
         if (i < 0) return {};
         s.problem.spaces.push_back("card");
         s.problem.buffers[moved_at(s, i)].space = 1;
         return {"is not in the host's memory"};
       }},
      {"workspace at a transfer",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_transfer(s, d, Kind::Save);
         if (i < 0) return {};
         s.plan.lives.push_back({kWorkspace, i, i, s.plan.arena_bytes, kAlignment});
         sort_lives(s.plan);
         fit_arena(s.plan);
         return {"has workspace but runs nothing"};
       }},
      {"transfer that became a run",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_transfer(s, d, Kind::Save);
         if (i < 0) return {};
         s.plan.actions[i].task = -1;
         return {"runs task -1"};
       }},
      {"stored buffer past the last",
       [](Subject& s, Dice&) -> Words {
         s.plan.stored.push_back(static_cast<BufferId>(s.problem.buffers.size()));
         return {"is stored between steps but is no variable"};
       }},
      {"stored buffer below zero",
       [](Subject& s, Dice&) -> Words {
         s.plan.stored.push_back(-1);
         return {"is stored between steps but is no variable"};
       }},
      {"stored value that is no variable",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i =
             pick(s.problem.buffers, d, [](const Buffer& b, int32_t) { return b.kind == BufferKind::Temporary; });
         s.plan.stored.push_back(i);
         return {"is stored between steps but is no variable"};
       }},
      {"stored variable that stays in memory",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick(s.problem.buffers, d, [&](const Buffer&, int32_t id) { return is_variable(s, id); });
         if (i < 0 || placed_bytes(s.problem.buffers[i], 1) == 0) return {};
         s.plan.stored.push_back(i);
         return {"lies at byte|variables take"};
       }},
      {"stored variable that is not listed",
       [](Subject& s, Dice&) -> Words {
         if (s.plan.stored.empty()) return {};
         const BufferId id = s.plan.stored.back();
         s.plan.stored.pop_back();
         return {"variable", s.problem.buffers[id].name};
       }},
      {"stored variable whose new value is not saved",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick(s.plan.actions, d, [&](const Action& action, int32_t n) {
           return is_save(s, action) && s.problem.buffers[moved_at(s, n)].kind == BufferKind::Variable;
         });
         if (i < 0) return {};
         const std::string name = name_at(s, i);
         remove_action(s, i);
         return {"is stored as", name};
       }},
      {"no room in the scratch file",
       [](Subject& s, Dice& d) -> Words {
         const int32_t i = pick_transfer(s, d, Kind::Save);
         if (i < 0) return {};
         s.limits.disk_bytes = placed_bytes(s.problem.buffers[moved_at(s, i)], s.limits.batch) - 1;
         return {"does not fit in a scratch file of"};
       }},
      {"no scratch file",
       [](Subject& s, Dice& d) -> Words {
         if (pick_transfer(s, d, Kind::Save) < 0) return {};
         s.limits.disk_bytes = 0;
         return {"does not fit in a scratch file of 0 bytes"};
       }},
      {"own work where the variant's operands are kept",
       [](Subject& s, Dice&) -> Words {
         std::erase_if(s.plan.lives, [](const Life& life) { return life.buffer == kWorkspace; });
         fit_arena(s.plan);
         return set_variant(s, -1, {"reads x", "dropped after"});
       }},
      {"variant that writes what has no place",
       [](Subject& s, Dice&) {
         return set_variant(s, 1, {"writes mask", "no place"});
       }},
      {"variant without its workspace",
       [](Subject& s, Dice&) -> Words {
         const auto workspace = std::erase_if(s.plan.lives, [](const Life& life) { return life.buffer == kWorkspace; });
         fit_arena(s.plan);
         return workspace == 0 ? Words{} : set_variant(s, 0, {"has no workspace", "back"});
       }},
      {"variant whose operand was dropped",
       [](Subject& s, Dice&) -> Words {
         const Words words = set_variant(s, 0, {"reads y", "dropped after"});
         if (words.empty()) return {};
         for (Life& life : s.plan.lives)
           if (name_of(s, life) == "y") --life.last_action;
         return words;
       }},
      {"variant past the last of several", [](Subject& s, Dice&) { return set_variant(s, 2, {"runs variant 2 of"}); }},
  };
}

std::vector<Fault> report_faults() {
  return {
      {"peak after the last action",
       [](Subject& s, Dice&) {
         return set_field(s, &Plan::peak_action, s.plan.actions.size(), "the peak is at action");
       }},
      {"peak before the first action",
       [](Subject& s, Dice&) { return set_field(s, &Plan::peak_action, -2, "the peak is at action -2"); }},
      {"more alive than the arena holds",
       [](Subject& s, Dice&) { return set_field(s, &Plan::live_bytes, s.plan.arena_bytes + 1, "said to live"); }},
      {"alive below zero", [](Subject& s, Dice&) { return set_field(s, &Plan::live_bytes, -1, "said to live"); }},
      {"tags add up to more",
       [](Subject& s, Dice& d) -> Words {
         s.plan.peak_by_tag[d.below(kTagCount)] += kAlignment;
         return {"tags at the peak"};
       }},
      {"tags add up to less",
       [](Subject& s, Dice&) -> Words {
         for (Bytes& bytes : s.plan.peak_by_tag)
           if (bytes > 0) {
             --bytes;
             return {"tags at the peak"};
           }
         return {};
       }},
      {"a tag below zero",
       [](Subject& s, Dice&) -> Words {
         s.plan.peak_by_tag[0] -= Bytes{1} << 50;
         s.plan.peak_by_tag[1] += Bytes{1} << 50;
         return {"tags at the peak"};
       }},
      {"tags past counting",
       [](Subject& s, Dice&) -> Words {
         s.plan.peak_by_tag.fill(std::numeric_limits<Bytes>::max());
         return {"tags at the peak"};
       }},
      {"lower bound over the arena",
       [](Subject& s, Dice&) {
         return set_field(s, &Plan::lower_bound_bytes, s.plan.arena_bytes + 1, "the lower bound of");
       }},
      {"lower bound below zero",
       [](Subject& s, Dice&) { return set_field(s, &Plan::lower_bound_bytes, -1, "the lower bound of -1"); }},
      {"lower bound of no task",
       [](Subject& s, Dice&) {
         return set_field(s, &Plan::lower_bound_task, s.problem.tasks.size(), "the lower bound is of task");
       }},
      {"no size without a line",
       [](Subject& s, Dice&) { return set_field(s, &Plan::unconstrained_bytes, -1, "bytes without a line"); }},
      {"no size of the next faster plan",
       [](Subject& s, Dice&) { return set_field(s, &Plan::next_faster_bytes, -1, "bytes of the next faster plan"); }},
      {"time below zero",
       [](Subject& s, Dice&) { return set_field(s, &Plan::predicted_ns, -1, "said to take -1 ns"); }},
      {"time that is no number",
       [](Subject& s, Dice&) { return set_field(s, &Plan::predicted_ns, kNever - kNever, "said to take"); }},
      {"time without end",
       [](Subject& s, Dice&) { return set_field(s, &Plan::unconstrained_ns, kNever, "said to take inf ns"); }},
      {"exactness of an unknown kind",
       [](Subject& s, Dice&) { return set_field(s, &Plan::exactness, 3, "exactness of the results is unknown"); }},
  };
}

}  // namespace plimsoll::testing
