// How an engine runs what is pending: as one planned piece where that fits, else in smaller ones.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "eager/engine.h"
#include "eager/report.h"

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

// All that the program holds and all updates.
EagerEngine::Pending EagerEngine::find_pending() const {
  // A backward pass computes the forward pass again, whatever of it was looked at: results do not depend on looking.
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
    // What a tape may still differentiate can't be computed again after the change.
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
  is_running_ = false;
  if (open_tapes_ == 0) begin_recording();
}

void EagerEngine::begin_recording() {
  for (ValueId id = 0; id < std::min(std::ssize(held_), std::ssize(recording_.body().values())); ++id) {
    EagerValue* const value = held_[static_cast<size_t>(id)];
    if (value != nullptr && !value->is_made() && recording_.body().value(id).kind == graph::ValueKind::Constant)
      make_constant(*value, id);
  }
  ++serial_;
  recording_.body().forget();
  held_.clear();
  is_done_.clear();
  frozen_.clear();
  taped_from_ = -1;
  where_.clear();
  entered_bytes_ = 0;
  // Values go one after another: none of them is in the new recording.
  const std::vector<Tensor> entered = std::move(entered_), kept = std::move(kept_);
  entered_ = {};
  kept_ = {};
}

void EagerEngine::run_nodes(std::span<const NodeId> nodes, std::span<const ValueId> targets) {
  if (try_run(nodes, targets)) return;
  if (nodes.size() == 1) refuse_operator(nodes[0]);
  // The first half gives what the second half reads.
  const graph::Body& body = recording_.body();
  const size_t half = nodes.size() / 2;
  const auto [front, back] = std::pair(nodes.first(half), nodes.subspan(half));
  std::vector<bool> is_in_front(body.values().size(), false), is_wanted(body.values().size(), false);
  for (const NodeId id : front)
    for (int i = 0; i < body.node(id).outputs; ++i)
      is_in_front[static_cast<size_t>(body.node(id).first_output + i)] = true;
  for (const ValueId id : targets) is_wanted[static_cast<size_t>(id)] = true;
  std::vector<ValueId> of_back, of_front;
  for (const ValueId id : targets) (is_in_front[static_cast<size_t>(id)] ? of_front : of_back).push_back(id);
  for (const NodeId id : back)
    for (const ValueId input : body.inputs(body.node(id)))
      if (is_in_front[static_cast<size_t>(input)] && !is_wanted[static_cast<size_t>(input)]) {
        is_wanted[static_cast<size_t>(input)] = true;
        of_front.push_back(input);
      }
  std::sort(of_front.begin(), of_front.end());
  const size_t kept_before = kept_.size();
  run_nodes(front, of_front);
  run_nodes(back, of_back);
  if (open_tapes_ == 0) kept_.resize(std::min(kept_.size(), kept_before));
}

bool EagerEngine::try_run(std::span<const NodeId> nodes, std::span<const ValueId> targets) {
  const graph::Body& body = recording_.body();
  const PieceBuilder builder(body, nodes);
  const std::shared_ptr<const CodePiece> piece = plans_.piece(builder);
  std::vector<PieceValue> numbers;
  numbers.reserve(targets.size());
  for (const ValueId id : targets) numbers.push_back(builder.number_of(id));
  std::vector<EagerValue*> leaves, outs;
  for (const ValueId id : builder.leaves())
    leaves.push_back(body.value(id).kind == graph::ValueKind::Constant ? nullptr : value_at(id));
  const Pins pins(leaves);
  for (EagerValue* leaf : leaves)
    if (leaf != nullptr && !store_.bring_back(*leaf)) return false;
  std::vector<int64_t> versions;
  for (const EagerValue* leaf : leaves) versions.push_back(leaf == nullptr ? 0 : leaf->version);
  bool has_updates = false;
  for (const NodeId id : nodes)
    for_each_updated(body, body.node(id), [&](ValueId changed) {
      has_updates = true;
      EagerValue& variable = *value_at(changed);
      if (!store_.keep_dependents(variable)) refuse(variable);
      ++variable.version;  // now, not after the run: what is made from it may not be dropped any more
    });
  for (const ValueId id : targets) outs.push_back(&value_for(id));
  PlannedPiece& planned = plans_.planned(piece, numbers, has_updates);
  if (!prepare(planned, outs)) {
    for (EagerValue* out : outs) store_.give_back(*out);
    return false;
  }
  auto record = std::make_shared<RunRecord>();
  record->piece = piece;
  record->serial = serial_;
  record->leaves.reserve(leaves.size());
  for (size_t i = 0; i < leaves.size(); ++i) {
    record->leaves.push_back({leaves[i], versions[i]});
    if (leaves[i] != nullptr) ++leaves[i]->records;
  }
  kernels::StepStatus status;
  planned.run({.seed = options_.seed, .step = serial_, .status = &status}, places_of(leaves), places_of(outs));
  for (size_t i = 0; i < outs.size(); ++i) {
    EagerValue& out = *outs[i];
    out.state = EagerValue::State::InMemory;
    out.record = record;
    out.made_as = numbers[i];
    out.make_ns = planned.predicted_ns();
    store_.touch(out);
  }
  is_done_.resize(body.nodes().size(), false);
  for (const NodeId id : nodes)
    if (body.node(id).op->traits.updates != 0) is_done_[static_cast<size_t>(id)] = true;
  if (!status.is_good()) throw_bad_value(planned, status);
  return true;
}

bool EagerEngine::remake(EagerValue& value) {
  const std::shared_ptr<RunRecord> record = value.record;
  std::vector<EagerValue*> leaves;
  for (const LeafUse& leaf : record->leaves) leaves.push_back(leaf.value);
  const Pins pins(leaves);
  for (EagerValue* leaf : leaves)
    if (leaf != nullptr && !store_.bring_back(*leaf)) return false;
  PlannedPiece& planned = plans_.planned(record->piece, {&value.made_as, 1}, false);
  EagerValue* const out = &value;
  if (!prepare(planned, {&out, 1})) {
    store_.give_back(value);
    return false;
  }
  planned.run({.seed = options_.seed, .step = record->serial}, places_of(leaves), places_of({&out, 1}));
  return true;
}

bool EagerEngine::plan(PlannedPiece& planned, Bytes limit) {
  const auto began = Clock::now();
  MemoryLine& line = store_.line();
  const auto turn = line.take_planning_turn();
  const std::optional<plan::Shortfall> shortfall = planned.plan(limit, store_.arena(), plans_.kernels());
  missed_arena_bytes_ = shortfall ? shortfall->need_bytes : 0;
  plans_.planning_ns += std::chrono::duration<double, std::nano>(Clock::now() - began).count();
  if (shortfall) return false;
  ++plans_.planned_count;
  plans_.keep_bound();
  line.measure_process();
  return true;
}

// Memory for the results, a plan that fits what is left, and its arena.
bool EagerEngine::prepare(PlannedPiece& planned, std::span<EagerValue* const> outs) {
  for (EagerValue* out : outs)
    if (!store_.allocate(*out)) return false;
  if (!planned.is_planned() && line().covers_process() && !store_.make_room(planning_bytes(planned.piece())))
    return false;
  const Bytes easy = store_.easy_bytes();
  // A plan that was made when there was little room is made again when there is more.
  const bool is_outgrown = planned.is_planned() && planned.slowdown() > 0.02 && easy / 5 * 4 > planned.planned_limit();
  const bool fits_somehow = planned.is_planned() && planned.arena_bytes() <= store_.most_bytes();
  if (!planned.is_planned() || is_outgrown || !fits_somehow)
    if (!plan(planned, easy) && !plan(planned, store_.most_bytes())) return false;
  return store_.commit_arena(planned.arena_bytes());
}

Bytes EagerEngine::planning_bytes(const CodePiece& piece) { return MiB + std::ssize(piece.nodes) * 8 * KiB; }

void EagerEngine::throw_bad_value(const PlannedPiece& planned, const kernels::StepStatus& status) {
  const graph::Op* const op = planned.op_of_action(status.action);
  throw Error(fmt::format("{}: {} {} at position {} is not in [0, {})", op == nullptr ? "eager code" : op->name,
                          status.bad.what, status.bad.value, status.bad.index, status.bad.end),
              ErrorKind::BadData);
}

void EagerEngine::refuse(const EagerValue& value) const {
  Refusal refusal;
  refusal.line = line().limit();
  refusal.need = line().used() + value.bytes;
  refusal.smallest_line = round_line(refusal.need);
  refusal.runtime = line().process_bytes();
  refusal.tightest_task = std::string(value.op == nullptr ? "a value" : value.op->name);
  refusal.holders = largest_holders(store_.values());
  refusal.reason = fmt::format("no room for {} of {}; the values that are held can neither be dropped nor spilled",
                               to_string(value.type), format_bytes(value.bytes));
  throw DoesNotFit(refusal, describe(refusal) + describe_values(store_.values(), store_.now()));
}

void EagerEngine::refuse_operator(NodeId id) const {
  const graph::Body& body = recording_.body();
  const graph::Node& node = body.node(id);
  Bytes own = 0, held = 0;
  const auto bytes_at = [&](ValueId value) {
    const TensorType& type = body.value(value).type;
    return MemoryPool::block_bytes(element_count(type.shape).fixed() * size_of(type.dtype));
  };
  std::string types;
  for (const ValueId input : body.inputs(node)) {
    own += bytes_at(input);
    types += (types.empty() ? "" : ", ") + to_string(body.value(input).type);
  }
  for (int i = 0; i < node.outputs; ++i) own += bytes_at(node.first_output + i);
  for (const EagerValue* value : store_.values())
    if (value->state == EagerValue::State::InMemory && !value->can_be_remade() && value->pins == 0)
      held += value->block.bytes;
  Refusal refusal;
  refusal.line = line().limit();
  refusal.runtime = line().process_bytes();
  if (line().covers_process()) own += planning_bytes({});
  own += missed_arena_bytes_;
  refusal.need = std::max(own + held + refusal.runtime + line().used(Tag::Staging), refusal.line + 1);
  refusal.smallest_line = round_line(refusal.need + refusal.need / 16);
  refusal.tightest_task = std::string(node.op->name);
  refusal.holders = largest_holders(store_.values());
  refusal.reason = fmt::format("{} of {} alone needs {}", node.op->name, types, format_bytes(own));
  throw DoesNotFit(refusal, describe(refusal) + describe_values(store_.values(), store_.now()));
}

}  // namespace plimsoll::eager
