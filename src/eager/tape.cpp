#include <plimsoll/eager.h>

#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include "autodiff/gradients.h"
#include "eager/engine.h"
#include "graph/caller.h"

namespace plimsoll {

namespace eager {

class TapeState {
 public:
  explicit TapeState(const TapeOptions& options)
      : options_(options),
        engine_(open_engine()),
        serial_(engine_.serial()),
        first_node_(static_cast<NodeId>(engine_.graph().body().nodes().size())) {}
  ~TapeState() { close(); }
  TapeState(const TapeState&) = delete;
  TapeState& operator=(const TapeState&) = delete;

  void close() {
    if (is_open_ && graph::is_alive(&engine_)) engine_.close_tape();
    is_open_ = false;
  }

  void watch(const Tensor& tensor) {
    expect_alive();
    expect_eager(tensor, "watch");
    if (!is_float(tensor.dtype()))
      throw Error(fmt::format("Tape::watch: a tensor of {} has no gradient; cast it to f32", to_string(tensor.type())));
    watched_.push_back({tensor, std::max(first_node_, static_cast<NodeId>(engine_.graph().body().nodes().size()))});
  }

  std::vector<Gradient> gradient(const Tensor& target, std::span<const Tensor> sources, Tensor seed) {
    if (!is_open_)
      throw Error(
          "Tape::gradient was called before, and the tape keeps nothing after that; make it persistent: "
          "Tape tape({.persistent = true})");
    expect_alive();
    expect_eager(target, "gradient");
    for (const Tensor& source : sources) expect_eager(source, "gradient");
    const graph::Composing composing(engine_.graph());
    std::vector<Gradient> gradients;
    if (engine_.serial() == serial_) gradients = differentiate(target, sources, seed);
    gradients.resize(sources.size());
    if (!options_.persistent) close();
    return gradients;
  }

 private:
  struct WatchedTensor {
    Tensor tensor;
    NodeId since;
  };

  // Opening a tape may run what is pending, and so begin another recording.
  static EagerEngine& open_engine() {
    auto& engine = static_cast<EagerEngine&>(graph::require_recorder("a Tape"));
    engine.expect_thread();
    engine.open_tape();
    return engine;
  }

  void expect_alive() const {
    if (!graph::is_alive(&engine_))
      throw Error("a Tape is used after its Eager has ended, or in another thread; use it where its Eager is");
  }

  static void expect_eager(const Tensor& tensor, std::string_view what) {
    if (!tensor.is_eager())
      throw Error(fmt::format("Tape::{}: the tensor {}; a tape is for eager code", what,
                              tensor.is_set() ? "belongs to a graph" : "is unset"));
  }

  // The node from which on the source is watched; -1: never.
  NodeId since_of(const Tensor& source, const std::vector<bool>& is_recorded) const {
    const graph::Body& body = engine_.graph().body();
    const ValueId id = source.id();
    if (body.value(id).kind == graph::ValueKind::Variable)
      if (options_.watch_variables && body.variable_of(id).role() == VariableRole::Weight) return first_node_;
    for (const WatchedTensor& watched : watched_)
      if (watched.tensor == source) return watched.since;
    const NodeId producer = body.value(id).producer;
    return producer >= first_node_ && is_recorded[static_cast<size_t>(id)] ? first_node_ : -1;
  }

  // By value: whether it depends on something that is watched.
  std::vector<bool> find_recorded() const {
    const graph::Body& body = engine_.graph().body();
    std::vector<bool> recorded(body.values().size(), false);
    std::vector<std::pair<NodeId, ValueId>> starts;
    for (const WatchedTensor& watched : watched_) starts.emplace_back(watched.since, watched.tensor.id());
    if (options_.watch_variables)
      for (const graph::Variable& variable : body.variables())
        if (variable.role() == VariableRole::Weight) starts.emplace_back(first_node_, variable.value);
    recorded.resize(body.values().size(), false);
    std::sort(starts.begin(), starts.end());
    size_t next = 0;
    for (NodeId id = first_node_; id < std::ssize(body.nodes()); ++id) {
      for (; next < starts.size() && starts[next].first <= id; ++next)
        recorded[static_cast<size_t>(starts[next].second)] = true;
      const graph::Node& node = body.node(id);
      const auto inputs = body.inputs(node);
      if (std::none_of(inputs.begin(), inputs.end(), [&](ValueId in) { return recorded[static_cast<size_t>(in)]; }))
        continue;
      for (int i = 0; i < node.outputs; ++i) recorded[static_cast<size_t>(node.first_output + i)] = true;
    }
    return recorded;
  }

  std::vector<Gradient> differentiate(const Tensor& target, std::span<const Tensor> sources, Tensor seed) {
    // id() enters values into the recording; all of them first, so that find_recorded knows them.
    static_cast<void>(target.id());
    for (const Tensor& source : sources) static_cast<void>(source.id());
    for (const WatchedTensor& watched : watched_) static_cast<void>(watched.tensor.id());
    const std::vector<bool> is_recorded = find_recorded();
    autodiff::Watched watched{first_node_, {}};
    std::vector<Tensor> connected;
    std::vector<size_t> at;
    for (size_t i = 0; i < sources.size(); ++i) {
      const NodeId since = since_of(sources[i], is_recorded);
      if (since < 0) continue;
      connected.push_back(sources[i]);
      watched.since.push_back(since);
      at.push_back(i);
    }
    std::vector<Gradient> gradients(sources.size());
    if (connected.empty()) return gradients;
    if (!seed.is_set() && !(element_count(target.shape()) == Dim(1)))
      seed = broadcast_to(engine_.graph().scalar(1), target.shape());
    const std::vector<Gradient> found = autodiff::differentiate(target, connected, seed, watched);
    for (size_t i = 0; i < found.size(); ++i) gradients[at[i]] = found[i];
    return gradients;
  }

  const TapeOptions options_;
  EagerEngine& engine_;
  const int64_t serial_;
  const NodeId first_node_;
  std::vector<WatchedTensor> watched_;
  bool is_open_ = true;
};

}  // namespace eager

Tape::Tape(const TapeOptions& options) : state_(std::make_unique<eager::TapeState>(options)) {}
Tape::~Tape() = default;
void Tape::watch(const Tensor& tensor) { state_->watch(tensor); }

std::vector<Gradient> Tape::gradient(const Tensor& target, std::span<const Tensor> sources, const Tensor& seed,
                                     std::source_location where) {
  const graph::Caller caller(where);
  return state_->gradient(target, sources, seed);
}

Tensor Tape::gradient(const Tensor& target, const Tensor& source, const Tensor& seed, std::source_location where) {
  const graph::Caller caller(where);
  const Gradient gradient = state_->gradient(target, {&source, 1}, seed)[0];
  return gradient.is_set() ? autodiff::densify(gradient, source.shape()) : Tensor();
}

}  // namespace plimsoll
