// Valid plans that faults are planted in, and what the planting needs.
#include <algorithm>
#include <stdexcept>

#include "plan/faults.h"
#include "plan/make_plan.h"
#include "plan/problem_files.h"

namespace plimsoll::testing {
namespace {

// Plans at lines from the smallest that fits to none.
void add_plans(std::vector<Subject>& subjects, const Problem& problem, Limits limits, int lines) {
  limits.pack_nodes = 20'000;
  limits.bytes = 0;
  const auto refused = make_plan(problem, limits);
  const Bytes need = std::get<Shortfall>(refused).need_bytes;
  limits.bytes = std::numeric_limits<Bytes>::max();
  const Bytes plain = std::get<Plan>(make_plan(problem, limits)).arena_bytes;
  for (int i = 0; i < lines; ++i) {
    limits.bytes = lines == 1 ? need : need + (plain - need) * i / (lines - 1);
    subjects.push_back({problem.name + " at " + std::to_string(limits.bytes), problem,
                        std::get<Plan>(make_plan(problem, limits)), limits});
  }
}

Subject make_subject(const std::string& name, const Problem& problem, const Plan& script,
                     const std::vector<int64_t>& micro_batches) {
  int64_t batch = 0;
  for (const int64_t samples : micro_batches) batch += samples;
  Subject subject{name, problem, lay_out(problem, script, micro_batches, batch), {.batch = batch}};
  if (micro_batches.size() > 1) subject.plan.exactness = Exactness::WithinTolerance;
  subject.limits.bytes = subject.plan.arena_bytes;
  subject.limits.disk_bytes = Bytes{1} << 40;
  return subject;
}

// Two layers with rows, sums over micro-batches, a sum of two terms and one that is scaled before its update.
Problem layers_problem() {
  Builder b;
  const BufferId w1 = b.variable("w1", 640), w2 = b.variable("w2", 320);
  const BufferId x = b.buffer("x", BufferKind::Input, Tag::Data, 0, 256);
  const BufferId t = b.buffer("t", BufferKind::Input, Tag::Data, 0, 64);
  const BufferId h1 = b.temporary("h1", 0, 320), h2 = b.temporary("h2", 0, 128);
  const BufferId y = b.buffer("y", BufferKind::Output, Tag::Activations, 0, 64);
  const BufferId loss = b.buffer("loss", BufferKind::Output, Tag::Activations, 4);
  const BufferId d2 = b.temporary("d2", 0, 128), d1 = b.temporary("d1", 0, 320);
  const BufferId dw2 = b.temporary("dw2", 320), dw1 = b.temporary("dw1", 640);
  Task& forward = b.task("forward1", {x, w1}, {h1});
  forward.workspace_per_sample_bytes = 64;
  forward.batch_rule = BatchRule::Rows;
  forward.recomputable = true;
  b.task("forward2", {h1, w2}, {h2}).batch_rule = BatchRule::Rows;
  b.task("head", {h2}, {y}).batch_rule = BatchRule::Rows;
  b.task("judge", {h2, t}, {loss, d2}).batch_rule = BatchRule::Sums;
  b.task("back_w2", {d2, h1}, {dw2}).batch_rule = BatchRule::Sums;
  b.task("back_x2", {d2, w2}, {d1}).batch_rule = BatchRule::Rows;
  b.task("back_w1", {d1, x}, {dw1}).batch_rule = BatchRule::Sums;
  b.task("more_w1", {d1}, {}, {dw1}).batch_rule = BatchRule::Sums;
  b.task("scale", {}, {}, {dw1});
  b.task("sgd1", {dw1}, {}, {w1});
  b.task("sgd2", {dw2}, {}, {w2});
  return b.problem;
}

Plan actions_in_micro_batches(int32_t micro_batches, bool reruns) {
  constexpr TaskId kTasksInParts = 8;
  std::vector<Action> actions;
  for (int32_t micro_batch = 0; micro_batch < micro_batches; ++micro_batch)
    for (TaskId task = 0; task < kTasksInParts; ++task) {
      if (reruns && task == 4) actions.push_back({.task = 0, .micro_batch = micro_batch});
      actions.push_back({.task = task, .micro_batch = micro_batch});
    }
  for (const TaskId task : {8, 9, 10}) actions.push_back({.task = task});
  return script_of(std::move(actions));
}

Subject spilling() {
  Builder b;
  const BufferId w = b.variable("w", 4096), x = b.buffer("x", BufferKind::Input, Tag::Data, 0, 1024);
  const BufferId h = b.temporary("h", 0, 1024), g = b.temporary("g", 0, 1024), k = b.temporary("k", 0, 1024);
  const BufferId y = b.buffer("y", BufferKind::Output, Tag::Activations, 0, 1024);
  b.task("a", {x, w}, {h}).workspace_fixed_bytes = 64;
  b.task("b", {h}, {g});
  b.task("c", {g}, {k});
  b.task("d", {k, h}, {y});
  b.task("sgd", {y}, {}, {w});
  b.problem.name = "spill";
  Plan script;
  const Action save_h = save_action(script, b.problem, h), save_g = save_action(script, b.problem, g),
               load_h = load_action(script, b.problem, h);
  script.actions = {{.task = 0}, {.task = 1}, save_h, save_g, {.task = 2}, load_h, {.task = 3}, {.task = 4}};
  return make_subject("spill", b.problem, script, {4});
}

Subject spilling_in_parts() {
  const Problem problem = layers_problem();
  Plan script = actions_in_micro_batches(2, false);
  const BufferId h1 = 4, dw1 = 11;
  std::vector<Action>& actions = script.actions;
  actions.insert(actions.begin() + 12, load_action(script, problem, h1, 1));  // back_w2 of micro-batch 1 is next
  actions.insert(actions.begin() + 10, save_action(script, problem, h1, 1));  // forward2 of micro-batch 1 was last
  actions.insert(actions.begin() + 8, {save_action(script, problem, dw1), load_action(script, problem, dw1)});
  return make_subject("spill in micro-batches", problem, script, {3, 2});
}

Subject with_variants() {
  Builder b;
  const BufferId in = b.buffer("in", BufferKind::Input, Tag::Data, 1024), x = b.temporary("x", 1024),
                 y = b.temporary("y", 1024), dy = b.temporary("dy", 1024), dx = b.temporary("dx", 1024),
                 mask = b.temporary("mask", 64), out = b.buffer("out", BufferKind::Output, Tag::Activations, 64);
  b.task("make", {in}, {x});
  b.task("relu", {x}, {y});
  b.task("use", {y}, {dy});
  Task& back = b.task("back", {dy, x}, {dx});
  Variant from_output, with_mask;
  from_output.name = "from output";
  from_output.reads = {dy, y};
  from_output.writes = {dx};
  from_output.workspace_fixed_bytes = 128;
  with_mask.name = "with mask";
  with_mask.reads = {dy, y};
  with_mask.writes = {dx, mask};
  with_mask.workspace_fixed_bytes = 128;
  back.variants = {from_output, with_mask};
  b.task("end", {dx}, {out});
  return make_subject("variant", b.problem,
                      script_of({{.task = 0}, {.task = 1}, {.task = 2}, {.task = 3, .variant = 0}, {.task = 4}}), {1});
}

// A small value takes the place of a large one, whose rest is free only afterwards.
Subject sharing() {
  Builder b;
  const BufferId in = b.buffer("in", BufferKind::Input, Tag::Data, 64), large = b.temporary("large", 4096),
                 small = b.temporary("small", 1024), twice = b.temporary("twice", 1024),
                 late = b.temporary("late", 1024), out = b.buffer("out", BufferKind::Output, Tag::Activations, 64);
  b.task("make", {in}, {large});
  b.task("shrink", {large}, {small}).may_share = {{0, 0}};
  b.task("square", {small, small}, {twice}).may_share = {{0, 0}};
  b.task("more", {twice}, {late});
  b.task("end", {twice, late}, {out}).may_share = {{0, 0}};
  Subject subject = make_subject("in place", b.problem,
                                 script_of({{.task = 0}, {.task = 1}, {.task = 2}, {.task = 3}, {.task = 4}}), {1});
  std::vector<Life>& lives = subject.plan.lives;
  for (Life& life : lives) {
    const auto large_life = std::find_if(lives.begin(), lives.end(), [&](const Life& l) { return l.buffer == large; });
    if (life.buffer == small) life.offset = large_life->offset;
    if (life.buffer == twice) life.offset = large_life->offset + 1024;
    if (life.buffer == late) life.offset = large_life->offset + 2048;
    if (life.buffer == out) life.offset = large_life->offset + 1024;
  }
  fit_arena(subject.plan);
  subject.limits.bytes = subject.plan.arena_bytes;
  return subject;
}

}  // namespace

std::vector<Subject> planned_subjects() {
  std::vector<Subject> subjects;
  for (const char* name : {"mlp", "lenet", "fashion", "vgg16", "unet"}) {
    const KeptProblem kept = read_kept_problem(name);
    add_plans(subjects, kept.problem, kept.limits, 3);
  }
  const KeptProblem kept = read_kept_problem("resnet18");
  add_plans(subjects, kept.problem, kept.limits, 1);
  add_plans(subjects, training_chain(12, 512, 8192), {.batch = 8}, 4);
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Problem problem = random_problem(seed, 40);
    Dice dice(seed + 77);
    for (Task& task : problem.tasks) task.recomputable = dice.below(5) > 0;
    add_plans(subjects, problem, {.batch = 3}, 2);
  }
  Problem micro_batches = training_chain(6, 4096, 1024);
  micro_batches.name = "micro-batches";
  micro_batches.micro_batch = 3;
  add_plans(subjects, micro_batches, {.batch = 8}, 3);
  // Rows too large to keep, and a weight with a state that waits in the scratch file.
  Problem spilled = training_chain(6, 64 * KiB, 64 * KiB);
  spilled.name = "spilled";
  for (size_t t = 0; t < spilled.tasks.size(); ++t) {
    if (!spilled.tasks[t].name.starts_with("sgd")) continue;
    spilled.buffers.push_back({"state" + std::to_string(t), Tag::Optimiser, BufferKind::Variable, 128 * KiB, 0});
    spilled.tasks[t].updates.push_back(static_cast<BufferId>(spilled.buffers.size()) - 1);
  }
  Limits disk{.batch = 4, .disk_bytes = GiB, .disk_read_bytes_per_s = 1e9, .disk_write_bytes_per_s = 1e9};
  add_plans(subjects, spilled, disk, 3);
  spilled.name = "spilled in micro-batches";
  spilled.micro_batch = 2;
  add_plans(subjects, spilled, disk, 2);
  return subjects;
}

std::vector<Subject> handmade_subjects() {
  return {make_subject("three micro-batches", layers_problem(), actions_in_micro_batches(3, false), {2, 2, 1}),
          make_subject("micro-batches made again", layers_problem(), actions_in_micro_batches(2, true), {2, 2}),
          spilling(),
          spilling_in_parts(),
          with_variants(),
          sharing()};
}

Plan script_of(std::vector<Action> actions) {
  Plan script;
  script.actions = std::move(actions);
  return script;
}

Plan lay_out(const Problem& problem, Plan script, std::vector<int64_t> micro_batches, int64_t batch) {
  const std::vector<Action>& actions = script.actions;
  Plan plan;
  const int64_t samples = *std::max_element(micro_batches.begin(), micro_batches.end());
  const auto last = static_cast<int32_t>(actions.size()) - 1;
  std::vector<int32_t> now(problem.buffers.size(), -1), micro_batch_of(problem.buffers.size(), 0);
  const auto open = [&](BufferId id, int32_t s) {
    const Buffer& buffer = problem.buffers[id];
    const bool is_whole = buffer.kind == BufferKind::Input || buffer.kind == BufferKind::Output;
    const bool is_kept = buffer.kind == BufferKind::Variable || buffer.kind == BufferKind::Output;
    now[id] = static_cast<int32_t>(plan.lives.size());
    const Bytes bytes = placed_bytes(buffer, is_whole ? batch : samples);
    plan.lives.push_back({id, s, is_kept ? last : s, plan.arena_bytes, bytes});
    plan.arena_bytes += bytes;
  };
  const auto touch = [&](BufferId id, int32_t s) {
    if (now[id] < 0) open(id, s);
    plan.lives[now[id]].last_action = std::max(plan.lives[now[id]].last_action, s);
  };
  for (const BufferKind kind : {BufferKind::Variable, BufferKind::Input})
    for (size_t id = 0; id < problem.buffers.size(); ++id)
      if (problem.buffers[id].kind == kind) open(static_cast<BufferId>(id), 0);
  for (const Life& life : plan.lives)
    if (problem.buffers[life.buffer].kind == BufferKind::Variable) plan.variable_bytes += life.bytes;
  for (int32_t s = 0; s <= last; ++s) {
    const Action& action = actions[s];
    const Work& work = work_of(problem, script, action);
    if (is_transfer(problem, action)) {
      const BufferId id = moved_by(task_of(problem, script, action));
      touch(id, s);
      const bool is_loaded = std::any_of(actions.begin() + s, actions.end(), [&](const Action& later) {
        return loads(problem, script, later) && moved_by(task_of(problem, script, later)) == id;
      });
      if (saves(problem, script, action) && is_loaded && problem.buffers[id].kind != BufferKind::Variable) now[id] = -1;
      continue;
    }
    for (const auto* list : {&work.reads, &work.updates})
      for (const BufferId id : *list) touch(id, s);
    for (const BufferId id : work.writes) {
      const Buffer& buffer = problem.buffers[id];
      const bool is_other_micro_batch = micro_batch_of[id] != action.micro_batch && buffer.per_sample_bytes > 0;
      if (is_other_micro_batch && buffer.kind == BufferKind::Temporary) now[id] = -1;
      micro_batch_of[id] = action.micro_batch;
      touch(id, s);
    }
    if (const Bytes bytes = workspace_bytes(work, micro_batches[action.micro_batch]); bytes > 0) {
      plan.lives.push_back({kWorkspace, s, s, plan.arena_bytes, bytes});
      plan.arena_bytes += bytes;
    }
  }
  plan.actions = std::move(script.actions);
  plan.transfers = std::move(script.transfers);
  plan.micro_batches = std::move(micro_batches);
  plan.predicted_ns = busy_ns(problem, plan, Lane::Compute);
  sort_lives(plan);
  return plan;
}

bool is_run(const Subject& subject, const Action& action) { return !is_transfer(subject.problem, action); }
bool is_save(const Subject& subject, const Action& action) { return saves(subject.problem, subject.plan, action); }
bool is_load(const Subject& subject, const Action& action) { return loads(subject.problem, subject.plan, action); }
BufferId moved_at(const Subject& subject, int32_t action) {
  return moved_by(task_of(subject.problem, subject.plan, subject.plan.actions[action]));
}
const Work& work_at(const Subject& subject, int32_t action) {
  return work_of(subject.problem, subject.plan, subject.plan.actions[action]);
}

bool reads(const Work& work, BufferId id) {
  return std::count(work.reads.begin(), work.reads.end(), id) +
         std::count(work.updates.begin(), work.updates.end(), id);
}

bool writes(const Work& work, BufferId id) { return std::count(work.writes.begin(), work.writes.end(), id) > 0; }

std::string name_of(const Subject& subject, const Life& life) {
  if (life.buffer != kWorkspace) return subject.problem.buffers[life.buffer].name;
  return "workspace of " + subject.problem.tasks.at(subject.plan.actions.at(life.first_action).task).name;
}

bool is_variable(const Subject& subject, BufferId id) {
  const std::vector<BufferId>& stored = subject.plan.stored;
  return id != kWorkspace && subject.problem.buffers[id].kind == BufferKind::Variable &&
         std::count(stored.begin(), stored.end(), id) == 0;
}

bool hands_place_on(const Plan& plan, int32_t action) {
  for (const Life& before : plan.lives)
    if (before.last_action == action && before.bytes > 0)
      for (const Life& after : plan.lives)
        if (&before != &after && after.first_action == action && after.offset == before.offset && after.bytes > 0)
          return true;
  return false;
}

void fit_arena(Plan& plan) {
  plan.arena_bytes = plan.variable_bytes;
  for (const Life& life : plan.lives) plan.arena_bytes = std::max(plan.arena_bytes, life.offset + life.bytes);
  plan.live_bytes = plan.lower_bound_bytes = 0;
  plan.peak_by_tag = {};
}

void move_life(Plan& plan, Life& life, Bytes offset) {
  life.offset = offset;
  fit_arena(plan);
}

void sort_lives(Plan& plan) {
  std::stable_sort(plan.lives.begin(), plan.lives.end(), [](const Life& a, const Life& b) {
    return std::pair(a.first_action, a.buffer) < std::pair(b.first_action, b.buffer);
  });
}

void remove_action(Subject& subject, int32_t action) {
  Plan& plan = subject.plan;
  plan.actions.erase(plan.actions.begin() + action);
  std::vector<Life> lives;
  for (Life life : plan.lives) {
    const bool is_temporary =
        life.buffer == kWorkspace || subject.problem.buffers[life.buffer].kind == BufferKind::Temporary;
    if (is_temporary && life.first_action == action && life.last_action == action) continue;
    if (life.first_action > action) --life.first_action;
    if (life.last_action >= action) life.last_action = std::max(life.last_action - 1, life.first_action);
    lives.push_back(life);
  }
  const auto last = static_cast<int32_t>(plan.actions.size()) - 1;
  for (Life& life : lives) {
    life.first_action = std::min(life.first_action, last);
    life.last_action = std::min(life.last_action, last);
  }
  plan.lives = std::move(lives);
  plan.peak_action = std::min(plan.peak_action, last);
  sort_lives(plan);
  fit_arena(plan);
}

void insert_action(Subject& subject, int32_t at, const Action& action) {
  Plan& plan = subject.plan;
  const bool is_end = at == static_cast<int32_t>(plan.actions.size());
  for (Life& life : plan.lives) {
    const bool is_kept =
        life.buffer != kWorkspace && (subject.problem.buffers[life.buffer].kind == BufferKind::Variable ||
                                      subject.problem.buffers[life.buffer].kind == BufferKind::Output);
    if (life.first_action >= at) ++life.first_action;
    if (life.last_action >= at || (is_end && is_kept && life.last_action == at - 1)) ++life.last_action;
  }
  plan.actions.insert(plan.actions.begin() + at, action);
  if (is_run(subject, action))
    if (const Bytes bytes = workspace_bytes(work_at(subject, at), plan.micro_batches.at(action.micro_batch)); bytes > 0)
      plan.lives.push_back({kWorkspace, at, at, plan.arena_bytes, bytes});
  for (Life& life : plan.lives)  // variables live from action 0 on, also when that is the inserted one
    if (at == 0 && life.first_action == 1 && life.buffer != kWorkspace &&
        (subject.problem.buffers[life.buffer].kind == BufferKind::Variable ||
         subject.problem.buffers[life.buffer].kind == BufferKind::Input))
      life.first_action = 0;
  sort_lives(plan);
  fit_arena(plan);
  subject.limits.bytes = std::max(subject.limits.bytes, plan.arena_bytes);
}

void move_action(Subject& subject, int32_t from, int32_t to) {
  const Action action = subject.plan.actions[from];
  const Bytes top = subject.plan.arena_bytes;  // above all else, so that no workspace adds another fault
  for (Life& life : subject.plan.lives)
    if (life.buffer == kWorkspace) move_life(subject.plan, life, top);
  remove_action(subject, from);
  insert_action(subject, to, action);
}

}  // namespace plimsoll::testing
