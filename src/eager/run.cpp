// How an engine runs what is pending: as one planned piece where that fits, else task by task.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "eager/engine.h"
#include "eager/report.h"
#include "kernels/draws.h"

namespace plimsoll::eager {
namespace {

using Clock = std::chrono::steady_clock;

// Leaves of a run stay in memory while it is prepared and runs.
class Pins {
 public:
  explicit Pins(std::span<EagerValue* const> values) : values_(values.begin(), values.end()) { add(1); }
  ~Pins() { add(-1); }
  Pins(const Pins&) = delete;
  Pins& operator=(const Pins&) = delete;

 private:
  void add(int32_t more) {
    for (EagerValue* value : values_)
      if (value != nullptr) value->pins += more;
  }
  std::vector<EagerValue*> values_;
};

std::vector<std::byte*> places_of(std::span<EagerValue* const> values) {
  std::vector<std::byte*> places;
  places.reserve(values.size());
  for (const EagerValue* value : values) places.push_back(value == nullptr ? nullptr : value->block.data);
  return places;
}

template <class Act>
void for_each_updated(const graph::Body& body, const graph::Node& node, const Act& act) {
  if (node.op->traits.updates == 0) return;
  const std::span<const ValueId> inputs = body.inputs(node);
  for (size_t i = 0; i < inputs.size(); ++i)
    if ((node.op->traits.updates >> i & 1) != 0) act(inputs[i]);
}

}  // namespace

bool EagerEngine::is_cut(ValueId id, bool recomputes_taped) const {
  if (!is_made(id)) return false;
  const bool is_taped = taped_from_ >= 0 && recording_.body().value(id).producer >= taped_from_;
  return !(recomputes_taped && is_taped && !is_frozen(id));
}

// Nodes that compute values with a handle of the program, and all updates.
EagerEngine::Pending EagerEngine::find_pending() const {
  // A backward pass recomputes the forward pass, whichever of its values were read: so reading a value does not change
  // results.
  Pending pending = find_pending(false);
  const auto is_backward = [&](NodeId id) { return recording_.body().node(id).is_backward; };
  if (taped_from_ >= 0 && std::any_of(pending.nodes.begin(), pending.nodes.end(), is_backward))
    pending = find_pending(true);
  return pending;
}

EagerEngine::Pending EagerEngine::find_pending(bool recomputes_taped) const {
  const graph::Body& body = recording_.body();
  Pending pending;
  std::vector<bool> needed(body.nodes().size(), false), is_target(body.values().size(), false);
  const auto need = [&](ValueId id) {
    const NodeId producer = body.value(id).producer;
    if (producer >= 0 && !is_cut(id, recomputes_taped)) needed[static_cast<size_t>(producer)] = true;
  };
  for (ValueId id = 0; id < std::min(std::ssize(held_), std::ssize(body.values())); ++id) {
    const EagerValue* const value = held_[static_cast<size_t>(id)];
    if (value == nullptr || value->is_made() || body.value(id).kind != graph::ValueKind::Computed) continue;
    is_target[static_cast<size_t>(id)] = true;
    need(id);
  }
  const auto is_done = [&](NodeId id) {
    return static_cast<size_t>(id) < is_done_.size() && is_done_[static_cast<size_t>(id)];
  };
  std::vector<bool> is_changed(body.values().size(), false);
  for (NodeId id = 0; id < std::ssize(body.nodes()); ++id) {
    if (body.node(id).op->traits.updates == 0 || is_done(id)) continue;
    needed[static_cast<size_t>(id)] = true;
    for_each_updated(body, body.node(id), [&](ValueId changed) { is_changed[static_cast<size_t>(changed)] = true; });
  }
  for (NodeId id = static_cast<NodeId>(std::ssize(body.nodes())) - 1; id >= 0; --id)
    if (needed[static_cast<size_t>(id)])
      for (const ValueId input : body.inputs(body.node(id))) need(input);
  for (NodeId id = 0; id < std::ssize(body.nodes()); ++id) {
    if (!needed[static_cast<size_t>(id)]) continue;
    pending.nodes.push_back(id);
    const graph::Node& node = body.node(id);
    const std::span<const ValueId> inputs = body.inputs(node);
    // A value that a tape may still differentiate, and that reads a changed variable, can't be recomputed afterwards.
    const bool freezes =
        open_tapes_ > 0 && node.op->traits.updates == 0 &&
        std::any_of(inputs.begin(), inputs.end(), [&](ValueId in) { return is_changed[static_cast<size_t>(in)]; });
    for (ValueId out = node.first_output; out < node.first_output + node.outputs; ++out) {
      if (!is_target[static_cast<size_t>(out)] && !(freezes && !is_made(out))) continue;
      pending.targets.push_back(out);
      if (freezes) pending.frozen.push_back(out);
    }
  }
  return pending;
}

void EagerEngine::flush() {
  if (is_running_) throw Error("eager code was called while it runs");
  const Pending pending = find_pending();
  is_running_ = true;
  try {
    if (!pending.nodes.empty()) run_nodes(pending.nodes, pending.targets);
    for (const ValueId id : pending.frozen) {
      frozen_.resize(recording_.body().values().size(), false);
      frozen_[static_cast<size_t>(id)] = true;
    }
  } catch (...) {
    is_running_ = false;
    throw;
  }
  is_running_ = has_updates_ = false;
  if (open_tapes_ == 0) begin_recording();
}

void EagerEngine::begin_recording() {
  for (ValueId id = 0; id < std::min(std::ssize(held_), std::ssize(recording_.body().values())); ++id) {
    EagerValue* const value = held_[static_cast<size_t>(id)];
    if (value != nullptr && !value->is_made() && recording_.body().value(id).kind == graph::ValueKind::Constant)
      make_constant(*value, id);
  }
  ++serial_;
  first_draw_ = draws_;
  recording_.body().forget();
  held_.clear();
  is_done_.clear();
  frozen_.clear();
  taped_from_ = -1;
  where_.clear();
  entered_bytes_ = 0;
  // Released at the end of this scope, when the new recording is in place.
  const std::vector<Tensor> entered = std::move(entered_), kept = std::move(kept_);
  entered_ = {};
  kept_ = {};
}

void EagerEngine::run_nodes(std::span<const NodeId> nodes, std::span<const ValueId> targets) {
  const graph::Body& body = recording_.body();
  const PieceBuilder builder(body, nodes);
  PieceRun run;
  std::vector<PieceValue> numbers;
  numbers.reserve(targets.size());
  for (const ValueId id : targets) numbers.push_back(builder.number_of(id));
  for (const ValueId id : builder.leaves())
    run.leaves.push_back(body.value(id).kind == graph::ValueKind::Constant ? nullptr : value_at(id));
  for (const ValueId id : targets) run.outs.push_back(&value_for(id));
  for (const NodeId id : nodes)
    for_each_updated(body, body.node(id), [&](ValueId changed) { run.changed.push_back(value_at(changed)); });
  run.goal = plans_.goal(builder, numbers, !run.changed.empty());
  run.first_draw = first_draw_;
  if (!run_planned(run)) walk(run);
  is_done_.resize(body.nodes().size(), false);
  for (const NodeId id : nodes)
    if (body.node(id).op->traits.updates != 0) is_done_[static_cast<size_t>(id)] = true;
}

// Runs with all leaves and results in memory at once, and temporaries in the arena. False: that does not fit.
bool EagerEngine::run_planned(const PieceRun& run) {
  const Pins pins(run.leaves);
  for (EagerValue* leaf : run.leaves)
    if (leaf != nullptr && !store_.bring_back(*leaf)) return false;
  for (EagerValue* variable : run.changed)
    if (!store_.keep_dependents(*variable)) return false;
  PlannedPiece& planned = plans_.planned(run.goal, run.wanted);
  if (!prepare(planned, run.outs)) {
    for (EagerValue* out : run.outs) store_.give_back(*out);
    return false;
  }
  if (run.wanted == LoweredPiece::kAllTargets) add_records(run, planned.predicted_ns());
  for (EagerValue* variable : run.changed) ++variable->version;  // after add_records: they name the versions before
  kernels::StepStatus status;
  planned.run({.seed = options_.seed, .step = kernels::step_of_recording(run.first_draw), .status = &status},
              places_of(run.leaves), places_of(run.outs));
  for (EagerValue* out : run.outs) store_.note_made(*out);
  if (!status.is_good()) throw_bad_value(planned.op_of_action(status.action), status);
  return true;
}

void EagerEngine::add_records(const PieceRun& run, double make_ns) {
  for (size_t t = 0; t < run.outs.size(); ++t) {
    EagerValue& out = *run.outs[t];
    out.make_ns = make_ns;
    if (!run.goal->is_repeatable[t]) continue;
    auto record = std::make_shared<RunRecord>();
    record->goal = run.goal;
    record->target = static_cast<int32_t>(t);
    record->first_draw = run.first_draw;
    record->leaves.reserve(run.goal->leaves_of[t].size());
    for (const int32_t number : run.goal->leaves_of[t]) {
      EagerValue* const leaf = run.leaves[static_cast<size_t>(number)];
      record->leaves.push_back({leaf, leaf->version, number});
      ++leaf->records;
    }
    out.record = std::move(record);
  }
}

// Runs task by task, with the kernels that a plan would run.
void EagerEngine::walk(const PieceRun& run) {
  store_.commit_arena(0);
  std::shared_ptr<const WalkProgram> program = walk_program(run);
  if (program == nullptr) refuse_planning(run);
  if (run.wanted == LoweredPiece::kAllTargets) add_records(run, program->predicted_ns());
  kernels::StepStatus status;
  std::optional<plan::TaskId> stuck;
  bool has_changed = false;
  {
    TaskWalk walk(store_, program,
                  {.seed = options_.seed, .step = kernels::step_of_recording(run.first_draw), .status = &status},
                  run.leaves, run.outs, [this](EagerValue& variable) { return store_.keep_dependents(variable); });
    if (const std::optional<TaskWalk::Lack> lack = walk.find_lack()) refuse_task(*program, *lack);
    if (!walk.run()) stuck = walk.stuck_at();
    has_changed = walk.has_changed_variables();
  }
  if (stuck) {
    for (EagerValue* out : run.outs) store_.unmake(*out);
    // Some updates have run and others can't: pending code would mix old and changed variables, so it is dropped.
    if (has_changed) begin_recording();
    refuse_walk(*program, *stuck, has_changed);
  }
  if (!status.is_good()) throw_bad_value(program->op_of(status.action), status);
}

// Null: there is no room to make the program.
std::shared_ptr<const WalkProgram> EagerEngine::walk_program(const PieceRun& run) {
  if (line().covers_process() && !store_.make_room(planning_bytes(*run.goal->piece))) return nullptr;
  const auto began = Clock::now();
  const auto turn = store_.line().take_planning_turn();
  std::shared_ptr<const WalkProgram> program = plans_.planned(run.goal, run.wanted).walk_program(plans_.kernels());
  plans_.planning_ns += std::chrono::duration<double, std::nano>(Clock::now() - began).count();
  plans_.keep_bound();
  store_.line().measure_process();
  return program;
}

bool EagerEngine::remake(EagerValue& value) {
  if (value.walk != nullptr) return value.walk->remake(value);
  const std::shared_ptr<RunRecord> record = value.record;
  PieceRun run;
  run.goal = record->goal;
  run.wanted = record->target;
  run.first_draw = record->first_draw;
  run.leaves.resize(run.goal->piece->leaves.size());
  std::vector<Tensor> kept;  // keeps the leaves alive: the value stops doing so once it is there
  for (const LeafUse& leaf : record->leaves) {
    run.leaves[static_cast<size_t>(leaf.number)] = leaf.value;
    graph::keep(leaf.value);
    kept.emplace_back(leaf.value);
  }
  run.outs = {&value};
  if (run_planned(run)) return true;
  const std::shared_ptr<const WalkProgram> program = walk_program(run);
  if (program == nullptr) return false;
  TaskWalk walk(store_, program, {.seed = options_.seed, .step = kernels::step_of_recording(run.first_draw)},
                run.leaves, run.outs, [](EagerValue&) { return true; });
  return walk.run();
}

bool EagerEngine::plan(PlannedPiece& planned, Bytes limit) {
  missed_bytes_ = planned.missed_bytes();
  if (limit < missed_bytes_) return false;
  const auto began = Clock::now();
  MemoryLine& line = store_.line();
  const auto turn = line.take_planning_turn();
  const std::optional<plan::Shortfall> shortfall = planned.plan(limit, store_.arena(), plans_.kernels());
  missed_bytes_ = planned.missed_bytes();
  plans_.planning_ns += std::chrono::duration<double, std::nano>(Clock::now() - began).count();
  if (shortfall) return false;
  ++plans_.planned_count;
  plans_.keep_bound();
  line.measure_process();
  return true;
}

// Takes memory for the results, makes a plan that fits what is left, and takes its arena.
bool EagerEngine::prepare(PlannedPiece& planned, std::span<EagerValue* const> outs) {
  for (EagerValue* out : outs)
    if (!store_.allocate(*out)) return false;
  if (!planned.is_planned() && line().covers_process() && !store_.make_room(planning_bytes(*planned.goal()->piece)))
    return false;
  const Bytes easy = store_.easy_bytes();
  // A plan that was made when there was little room is made again when there is more.
  const bool is_outgrown = planned.is_planned() && planned.slowdown() > 0.02 && easy / 5 * 4 > planned.planned_limit();
  const bool fits_somehow = planned.is_planned() && planned.arena_bytes() <= store_.most_bytes();
  if (!planned.is_planned() || is_outgrown || !fits_somehow)
    if (!plan(planned, easy) && !plan(planned, store_.most_bytes()) &&
        !(weights_.ask_for_room() && plan(planned, store_.most_bytes())))
      return false;
  return store_.commit_arena(planned.arena_bytes());
}

Bytes EagerEngine::planning_bytes(const CodePiece& piece) { return MiB + std::ssize(piece.nodes) * 8 * KiB; }

}  // namespace plimsoll::eager
