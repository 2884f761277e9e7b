#include "eager/engine.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/random.h"
#include "eager/report.h"

namespace plimsoll::eager {
namespace {

// Pending operators run at the latest when there are kMostPending. From kManyPending on they run when the next operator
// equals the first one of the recording, so that a loop is cut at the same place each time.
constexpr size_t kManyPending = 1024, kMostPending = 4096;
// The same for bytes that came from the program, which stay until the operators that read them have run. The places
// where code is cut decide which kernels run, so none of these numbers depends on the line.
constexpr Bytes kManyEntered = 4 * MiB, kMostEntered = 64 * MiB;

void dispose_value(graph::Held* held) noexcept;

Bytes bytes_of(const TensorType& type) { return element_count(type.shape).fixed() * size_of(type.dtype); }

}  // namespace

// Ends a value when its last handle goes.
struct ValueAccess {
  static void dispose(EagerValue& value) noexcept {
    auto* const engine = static_cast<EagerEngine*>(value.recorder);
    if (engine == nullptr) {  // the Eager has ended
      if (value.records == 0) delete &value;
      return;
    }
    if (value.recording == engine->serial() && value.id >= 0) engine->held_[static_cast<size_t>(value.id)] = nullptr;
    engine->store_.release(value);
  }
};

namespace {

void dispose_value(graph::Held* held) noexcept { ValueAccess::dispose(static_cast<EagerValue&>(*held)); }

}  // namespace

EagerEngine::EagerEngine(const MemoryLine& line, const EagerOptions& options)
    : options_(options),
      store_(line, options_, weights_, [this](EagerValue& value) { return remake(value); }),
      plans_(options.plan_cache_bytes) {
  store_.line().expect_training();
  store_.line().measure_process();
  graph_ = &recording_;
  recording_.body().record_for(this);
  graph::add_recorder(this);
  description_ = store_.line().describe_with([this] { return report(); });
}

EagerEngine::~EagerEngine() {
  weights_.leave();
  graph::remove_recorder(this);
  // Handles of the engine itself go first, while the engine can still end their values.
  entered_.clear();
  kept_.clear();
  variables_.clear();
  store_.end();
}

void EagerEngine::expect_thread() const {
  if (std::this_thread::get_id() != thread_)
    throw Error(
        "a tensor of an Eager is used in another thread than that which made the Eager; give each thread its own");
}

EagerValue* EagerEngine::add_value(ValueId id) {
  EagerValue* const value = store_.add();
  value->recorder = this;
  value->dispose = dispose_value;
  if (id < 0) return value;
  const graph::Value& recorded = recording_.body().value(id);
  value->type = recorded.type;
  value->bytes = bytes_of(recorded.type);
  value->recording = serial_;
  value->id = id;
  if (recorded.producer >= 0) {
    value->op = recording_.body().node(recorded.producer).op;
    if (static_cast<size_t>(recorded.producer) < where_.size())
      value->made_at = where_[static_cast<size_t>(recorded.producer)];
  }
  if (held_.size() <= static_cast<size_t>(id)) held_.resize(static_cast<size_t>(id) + 64, nullptr);
  held_[static_cast<size_t>(id)] = value;
  return value;
}

graph::Held* EagerEngine::hold(ValueId id) {
  if (EagerValue* const known = value_at(id)) {
    ++known->handles;
    return known;
  }
  const graph::Value& recorded = recording_.body().value(id);
  if (recorded.kind == graph::ValueKind::Variable) {
    EagerValue& value = variable_value(*recording_.body().variable_of(id).stored);
    weights_.note_read(value);
    value.recording = serial_;
    value.id = id;
    if (held_.size() <= static_cast<size_t>(id)) held_.resize(static_cast<size_t>(id) + 64, nullptr);
    held_[static_cast<size_t>(id)] = &value;
    ++value.handles;
    return &value;
  }
  return add_value(id);
}

EagerValue& EagerEngine::variable_value(const StoredVariable& stored) {
  if (const auto known = variables_.find(&stored); known != variables_.end())
    return static_cast<EagerValue&>(*known->second.held());
  EagerValue* const value = add_value(-1);
  value->origin = EagerValue::Origin::Variable;
  value->stored = &stored;
  value->init = stored.init;
  value->type = stored.type;
  value->bytes = bytes_of(stored.type);
  if (caller_ != nullptr) value->made_at = *caller_;
  variables_.emplace(&stored, Tensor(value));
  weights_.add(*value, options_.seed);
  return *value;
}

Tensor EagerEngine::tensor_of(const StoredVariable& variable) {
  EagerValue& value = variable_value(variable);
  ++value.handles;
  return Tensor(&value);
}

ValueId EagerEngine::enter(graph::Held& held) {
  expect_thread();
  auto& value = static_cast<EagerValue&>(held);
  graph::Body& body = recording_.body();
  if (value.origin == EagerValue::Origin::Variable) {
    weights_.note_read(value);
    value.id = body.enter_variable(*value.stored);
  } else if (value.is_made()) {
    value.id = body.add_placeholder("", value.type);
    if (value.origin == EagerValue::Origin::Given || value.origin == EagerValue::Origin::Filled)
      entered_bytes_ += value.bytes;
  } else {
    throw Error("a tensor was lost when the code that computes it failed; compute it again");
  }
  value.recording = serial_;
  if (held_.size() <= static_cast<size_t>(value.id)) held_.resize(static_cast<size_t>(value.id) + 64, nullptr);
  held_[static_cast<size_t>(value.id)] = &value;
  ++value.handles;
  entered_.emplace_back(&held);
  return value.id;
}

void EagerEngine::before_apply(const graph::Op& op, const graph::Attrs& attrs) {
  expect_thread();
  const graph::Body& body = recording_.body();
  const size_t pending = body.nodes().size();
  if (pending == 0 || body.is_composing() || open_tapes_ > 0) return;
  const bool is_much = pending >= kManyPending || entered_bytes_ > kManyEntered;
  if (!is_much) return;
  const graph::Node& first = body.node(0);
  if (pending >= kMostPending || entered_bytes_ > kMostEntered || (first.op == &op && body.attrs(first) == attrs))
    flush();
}

void EagerEngine::after_apply(NodeId node, const std::source_location& where) {
  where_.resize(static_cast<size_t>(node) + 1);
  where_[static_cast<size_t>(node)] = caller_ != nullptr ? *caller_ : where;
  const graph::Body& body = recording_.body();
  const graph::Node& recorded = body.node(node);
  if (recorded.op->traits.updates == 0) return;
  has_updates_ = true;
  const std::span<const ValueId> inputs = body.inputs(recorded);
  for (size_t i = 0; i < inputs.size(); ++i)
    if ((recorded.op->traits.updates >> i & 1) != 0)
      if (EagerValue* const value = value_at(inputs[i]); value != nullptr && value->stored != nullptr)
        weights_.take(*value);
}

void EagerEngine::bring_back(EagerValue& value) {
  if (!store_.bring_back(value)) refuse(value);
}

void EagerEngine::lose(EagerValue& variable) {
  expect_thread();
  if (open_tapes_ > 0)
    throw Error(
        fmt::format("weight '{}' can't be changed, or moved to a session, while a Tape is open; end the tape "
                    "before: it ends with gradient, or where its scope ends",
                    variable.stored->name));
  flush();
  if (!store_.keep_dependents(variable)) refuse(variable);
  store_.unmake(variable);
  ++variable.version;
  variable.owns_weight = false;
}

std::string_view EagerEngine::name_of(const graph::Held& held) {
  const auto& value = static_cast<const EagerValue&>(held);
  if (value.stored != nullptr) return value.stored->name;
  return value.op != nullptr ? value.op->name : "value";
}

EagerValue& EagerEngine::value_for(ValueId id) {
  if (EagerValue* const known = value_at(id)) return *known;
  kept_.emplace_back(add_value(id));
  return static_cast<EagerValue&>(*kept_.back().held());
}

void EagerEngine::make_constant(EagerValue& value, ValueId id) {
  if (!store_.allocate(value)) refuse(value);
  const std::vector<std::byte>& bytes = recording_.body().constant_of(id).bytes;
  std::memcpy(value.block.data, bytes.data(), bytes.size());
  value.origin = EagerValue::Origin::Given;
  value.state = EagerValue::State::InMemory;
}

const void* EagerEngine::read(graph::Held& held) {
  expect_thread();
  auto& value = static_cast<EagerValue&>(held);
  if (!value.is_made() && value.origin == EagerValue::Origin::Computed) flush();
  if (value.origin == EagerValue::Origin::Variable && !recording_.body().nodes().empty())
    flush();  // updates may be pending
  if (!store_.bring_back(value)) refuse(value);
  return value.block.data;
}

bool EagerEngine::is_read_by_pending(const EagerValue& value) const {
  const graph::Body& body = recording_.body();
  return value.recording == serial_ &&
         std::any_of(body.nodes().begin(), body.nodes().end(), [&](const graph::Node& node) {
           return std::ranges::find(body.inputs(node), value.id) != body.inputs(node).end();
         });
}

void EagerEngine::set_number(graph::Held& held, float number) {
  expect_thread();
  auto& value = static_cast<EagerValue&>(held);
  if (!store_.bring_back(value)) refuse(value);
  if (*reinterpret_cast<float*>(value.block.data) == number) return;
  if (value.stored != nullptr) weights_.take(value);
  if (is_read_by_pending(value)) flush();
  if (!store_.keep_dependents(value) || !store_.bring_back(value)) refuse(value);
  *reinterpret_cast<float*>(value.block.data) = number;
  ++value.version;
}

void EagerEngine::run() {
  expect_thread();
  flush();
}

std::vector<Tensor> EagerEngine::variables(std::string_view prefix, VariableRole role) {
  std::vector<Tensor> found;
  for (const StoredVariable& stored : recording_.store()->variables())
    if (stored.role == role && std::string_view(stored.name).starts_with(prefix)) found.push_back(tensor_of(stored));
  return found;
}

// One for each list of weights: two optimisers count their steps apart.
std::string EagerEngine::optimiser_scope(std::span<const Tensor> weights) {
  std::vector<const StoredVariable*> list;
  for (const Tensor& weight : weights)
    list.push_back(weight.is_eager() ? static_cast<const EagerValue&>(*weight.held()).stored : nullptr);
  auto known = std::find(weight_lists_.begin(), weight_lists_.end(), list);
  if (known == weight_lists_.end()) known = weight_lists_.insert(weight_lists_.end(), std::move(list));
  const auto number = known - weight_lists_.begin();
  return number == 0 ? "optimiser" : fmt::format("optimiser_{}", number);
}

Tensor EagerEngine::make_given(const TensorType& type, const void* from, const std::source_location& where) {
  auto [made, memory] = make_empty(type, where);
  std::memcpy(memory, from, static_cast<size_t>(bytes_of(type)));
  return made;
}

EagerValue& EagerEngine::add_made(const TensorType& type, EagerValue::Origin origin,
                                  const std::source_location& where) {
  expect_thread();
  EagerValue* const value = add_value(-1);
  Tensor made(value);  // goes when there is no room
  value->type = type;
  value->bytes = bytes_of(type);
  value->origin = origin;
  value->made_at = where;
  if (!store_.allocate(*value)) {
    flush();  // frees values that only pending code reads
    if (!store_.allocate(*value)) refuse(*value);
  }
  value->state = EagerValue::State::InMemory;
  store_.touch(*value);
  graph::keep(value);
  return *value;
}

std::pair<Tensor, std::byte*> EagerEngine::make_empty(const TensorType& type, const std::source_location& where) {
  EagerValue& value = add_made(type, EagerValue::Origin::Given, where);
  return {Tensor(&value), value.block.data};
}

Tensor EagerEngine::make_filled(const TensorType& type, const Init& init, bool is_range,
                                const std::source_location& where) {
  EagerValue& value = add_made(type, EagerValue::Origin::Filled, where);
  value.init = init;
  value.is_range = is_range;
  value.fill_key = mix_bits(options_.seed, static_cast<uint64_t>(++values_made_));
  // About what filling takes: a few hundred million random numbers a second, or memory speed.
  value.make_ns =
      static_cast<double>(element_count(type.shape).fixed()) * (init.kind == Init::Kind::Constant ? 0.3 : 4.0);
  store_.fill(value);
  return Tensor(&value);
}

Tensor EagerEngine::make_variable(std::string_view name, const TensorType& type, const Init& init, VariableRole role) {
  expect_thread();
  return recording_.variable(name, type.dtype, type.shape, init, role);
}

void EagerEngine::open_tape() {
  // A new tape ends the training step before it, so that a loop which reads no value still runs step by step.
  if (open_tapes_ == 0 && has_updates_) flush();
  ++open_tapes_;
  if (taped_from_ < 0) taped_from_ = static_cast<NodeId>(recording_.body().nodes().size());
}

void EagerEngine::close_tape() { --open_tapes_; }

std::string EagerEngine::report() const {
  const EagerFacts now = facts();
  return fmt::format(
      "eager: {} values, {} operators pending, {} plans made in {:.1f} ms ({} kept), {} values dropped, "
      "{} spilled, {} recomputed{}\n",
      now.values, now.pending, now.plans, now.planning_ms, now.cached_plans, now.dropped, now.spilled, now.recomputed,
      describe_values(store_.values(), store_.now()));
}

EagerFacts EagerEngine::facts() const {
  return {plans_.planned_count,
          plans_.planning_ns / 1e6,
          static_cast<int64_t>(plans_.size()),
          store_.drops(),
          store_.spills(),
          store_.remakes(),
          std::ssize(store_.values()),
          std::ssize(recording_.body().nodes())};
}

}  // namespace plimsoll::eager
