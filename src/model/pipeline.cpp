#include "model/pipeline.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include "autodiff/gradients.h"
#include "autodiff/updates.h"
#include "model/freeze.h"
#include "model/passes.h"
#include "model/stages.h"
#include "ops/ops.h"

namespace plimsoll::model {
namespace {

using graph::Body;
using graph::ValueKind;

std::vector<ValueId> ids_of(Tensor loss, const std::vector<Tensor>& sums) {
  std::vector<ValueId> ids{loss.id()};
  for (const Tensor& sum : sums) ids.push_back(sum.id());
  return ids;
}

// Both passes of the whole model, and how they are cut.
struct WholeModel {
  std::shared_ptr<Graph> graph;
  TrainingGraph passes;
  std::vector<Tensor> trained;
  std::vector<NodeId> statistics;
  StageCut training, evaluation;
  // By trained weight: the nodes that use it in training.
  std::vector<std::vector<NodeId>> uses;
  std::vector<std::vector<bool>> has_gradient;  // of values that cross in training: indexed as StageCut::crossing
};

// Values that depend on a trained weight.
std::vector<bool> find_reached(const Body& graph, std::span<const Tensor> trained, NodeId end) {
  std::vector<bool> reached(graph.values().size(), false);
  for (const Tensor& weight : trained) reached[static_cast<size_t>(weight.id())] = true;
  for (NodeId id = 0; id < end; ++id) {
    const graph::Node& node = graph.node(id);
    const auto is_reached = [&](ValueId input) { return reached[static_cast<size_t>(input)]; };
    if (std::ranges::any_of(graph.inputs(node), is_reached))
      for (int i = 0; i < node.outputs; ++i) reached[static_cast<size_t>(node.first_output + i)] = true;
  }
  return reached;
}

void find_uses(WholeModel& whole) {
  const Body& body = whole.graph->body();
  std::unordered_map<ValueId, size_t> number;
  for (size_t i = 0; i < whole.trained.size(); ++i) number[whole.trained[i].id()] = i;
  whole.uses.resize(whole.trained.size());
  for (NodeId id = 0; id < static_cast<NodeId>(whole.training.stage_of.size()); ++id) {
    if (whole.training.stage_of[static_cast<size_t>(id)] < 0) continue;
    for (const ValueId input : body.inputs(body.node(id))) {
      const auto at = number.find(input);
      if (at == number.end()) continue;
      std::vector<NodeId>& uses = whole.uses[at->second];
      if (uses.empty() || uses.back() != id) uses.push_back(id);
    }
  }
}

// Which of the values that cross to the next stage have a gradient there: found by building those gradients.
void find_gradients(WholeModel& whole, NodeId end) {
  Graph& graph = *whole.graph;
  const std::vector<bool> reached = find_reached(graph.body(), whole.trained, end);
  for (size_t stage = 0; stage < whole.training.crossing.size(); ++stage) {
    std::vector<Tensor> values;
    std::vector<size_t> numbers;
    const std::vector<ValueId>& crossing = whole.training.crossing[stage];
    for (size_t i = 0; i < crossing.size(); ++i) {
      const Tensor value(graph, crossing[i]);
      if (!reached[static_cast<size_t>(crossing[i])] || !is_float(value.dtype())) continue;
      values.push_back(value);
      numbers.push_back(i);
    }
    std::vector<bool>& has = whole.has_gradient.emplace_back(crossing.size(), false);
    const std::vector<Gradient> gradients = autodiff::differentiate(
        whole.passes.loss, values, {}, {.first_node = whole.training.first_node(static_cast<int>(stage) + 1)});
    for (size_t i = 0; i < values.size(); ++i) has[numbers[i]] = gradients[i].is_set();
  }
}

WholeModel build_whole(const std::shared_ptr<VariableStore>& store, const ModelSpec& spec,
                       const InputConversion& conversion, const Freeze& freeze, const StagePlace& place) {
  WholeModel whole;
  whole.graph = std::make_shared<Graph>(store);
  Graph& graph = *whole.graph;
  const NamedTensors inputs = add_fed(graph, spec, conversion, whole.passes);
  const BuiltPass training = build_pass(graph, spec, inputs, whole.passes, true);
  whole.passes.loss = training.objective.loss;
  whole.passes.sums = training.objective.sums;
  const auto end = static_cast<NodeId>(graph.body().nodes().size());
  whole.trained = list_trained(graph, freeze);
  Updates statistics;
  statistics.nodes =
      autodiff::find_statistics(graph.body(), autodiff::training_gradients(whole.passes.loss, whole.trained, {}));
  drop_frozen_statistics(graph, freeze, statistics);
  whole.statistics = statistics.nodes;
  whole.training = cut_into_stages(graph.body(), {0, end}, spec.name(), place.first_layers,
                                   ids_of(whole.passes.loss, whole.passes.sums), whole.statistics);
  find_uses(whole);
  find_gradients(whole, end);
  const auto begin = static_cast<NodeId>(graph.body().nodes().size());
  add_evaluation(graph, spec, inputs, whole.passes);
  whole.evaluation =
      cut_into_stages(graph.body(), {begin, static_cast<NodeId>(graph.body().nodes().size())}, spec.name(),
                      place.first_layers, ids_of(whole.passes.eval_loss, whole.passes.eval_sums), {});
  return whole;
}

// A weight that this rank trains.
struct StageWeight {
  Tensor weight;
  std::vector<int> users;        // stages that use it, in order
  std::vector<size_t> own_uses;  // of StageBuilder::uses_, in program order
};

// Each node that uses a weight has a sum of gradients of its own. So the order of additions does not depend on which
// ranks use the weight: all micro-batches of a use are added, then one use after another.
struct WeightUse {
  NodeId node;     // of the whole model
  ValueId weight;  // there
  Tensor seen;     // what the node reads in this graph: the weight, or a view of its own where it is used several times
  Tensor sum;
  bool has_gradient = false;
};

// Values of the whole model in the graph of the stage, for one micro-batch.
using ValueMap = std::unordered_map<ValueId, ValueId>;

class StageBuilder {
 public:
  StageBuilder(Graph& graph, const WholeModel& whole, const StagePlace& place)
      : graph_(graph), whole_(whole), source_(whole.graph->body()), place_(place) {}

  StageGraph build(const Optimiser& optimiser) {
    add_variables();
    add_placeholders();
    {
      const Scope scope(graph_, "optimiser");
      updates_ = autodiff::make_settings(graph_, optimiser);
      turn_ = graph_.variable("turn", DType::F32, {1}, Init::zeros(), VariableRole::Gradient);
      for (size_t i = 0; i < whole_.trained.size(); ++i) add_weight(i);
    }
    maps_.resize(static_cast<size_t>(place_.micro_batches));
    begins_.resize(maps_.size());
    received_.resize(maps_.size());
    sent_.resize(maps_.size());
    for (const StageTurn& turn : list_turns(place_.stage, place_.stages, place_.micro_batches)) take(turn);
    add_update(optimiser);
    add_fetches();
    add_evaluation_pass();
    result_.passes.updates = updates_;
    result_.passes.learning_rate = updates_.learning_rate;
    result_.whole = whole_.graph;
    return std::move(result_);
  }

 private:
  using Values = std::vector<ValueId>;

  std::vector<bool> find_used() const {
    std::vector<bool> used(source_.values().size(), false);
    for (const StageCut* cut : {&whole_.training, &whole_.evaluation})
      for (size_t id = 0; id < cut->stage_of.size(); ++id)
        if (cut->stage_of[id] == place_.stage)
          for (const ValueId input : source_.inputs(source_.node(static_cast<NodeId>(id))))
            used[static_cast<size_t>(input)] = true;
    return used;
  }

  void add_variables() {
    const std::vector<bool> used = find_used();
    for (const graph::Variable& variable : source_.variables()) {
      if (!used[static_cast<size_t>(variable.value)]) continue;
      shared_[variable.value] = graph_.body().enter_variable(*variable.stored);
    }
  }

  void add_weight(size_t number) {
    const ValueId source = whole_.trained[number].id();
    const std::vector<NodeId>& uses = whole_.uses[number];
    StageWeight weight;
    for (const NodeId node : uses) {
      const int stage = whole_.training.stage_of[static_cast<size_t>(node)];
      if (weight.users.empty() || weight.users.back() != stage) weight.users.push_back(stage);
      if (stage != place_.stage) continue;
      weight.weight = Tensor(graph_, shared_.at(source));
      const Shape shape = weight.weight.shape();
      WeightUse use{node, source, weight.weight, {}};
      if (uses.size() > 1) use.seen = reshape(reshape(weight.weight, {element_count(shape)}), shape);
      use.sum = graph_.variable(fmt::format("{}/sum{}", weight.weight.name(), weight.own_uses.size()), DType::F32,
                                shape, Init::zeros(), VariableRole::Gradient);
      seen_[{node, source}] = use.seen.id();
      weight.own_uses.push_back(uses_.size());
      uses_.push_back(use);
    }
    if (!weight.own_uses.empty()) weights_.push_back(weight);
  }

  void add_placeholders() {
    for (int64_t i = 0; i < place_.micro_batches; ++i) {
      std::vector<Tensor> fed;
      const auto add = [&](const NamedTensors& from, NamedTensors& to) {
        for (const auto& [name, tensor] : from) {
          const std::string own = i == 0 ? name : fmt::format("{}/micro_batch{}", name, i);
          const Tensor placeholder = graph_.placeholder(own, tensor.dtype(), tensor.shape());
          if (i == 0) to.add(name, placeholder);
          fed.push_back(placeholder);
        }
      };
      add(whole_.passes.inputs, result_.passes.inputs);
      add(whole_.passes.targets, result_.passes.targets);
      result_.fed.push_back(std::move(fed));
    }
  }

  void map_placeholders(size_t micro_batch, ValueMap& map) const {
    size_t next = 0;
    for (const NamedTensors* tensors : {&whole_.passes.inputs, &whole_.passes.targets})
      for (const auto& [name, tensor] : *tensors) map[tensor.id()] = result_.fed[micro_batch][next++].id();
  }

  ValueId mapped(ValueId value, const ValueMap& map) {
    if (const auto at = map.find(value); at != map.end()) return at->second;
    if (const auto at = shared_.find(value); at != shared_.end()) return at->second;
    if (source_.value(value).kind != ValueKind::Constant)
      throw Error(
          fmt::format("'{}' is not on stage {} of the pipeline", source_.name(source_.value(value)), place_.stage));
    const ValueId constant =
        graph_.body().add_constant(source_.value(value).type, source_.constant_of(value).bytes, "");
    shared_[value] = constant;
    return constant;
  }

  // Adds the nodes of this stage for one more micro-batch.
  void add_nodes(const StageCut& cut, int64_t micro_batch, ValueMap& map, bool trains) {
    Body& body = graph_.body();
    for (size_t id = 0; id < cut.stage_of.size(); ++id) {
      if (cut.stage_of[id] != place_.stage) continue;
      const graph::Node& node = source_.node(static_cast<NodeId>(id));
      Values inputs;
      for (const ValueId input : source_.inputs(node)) {
        const auto seen = seen_.find({static_cast<NodeId>(id), input});
        inputs.push_back(trains && seen != seen_.end() ? seen->second : mapped(input, map));
      }
      graph::Attrs attrs = source_.attrs(node);
      // Random operators are keyed by the sample's number in the batch.
      if (micro_batch > 0 && attrs.has("key")) attrs.set("first_sample", micro_batch * place_.samples);
      const NodeId added = body.add_node(*node.op, inputs, attrs, source_.name(node));
      for (int i = 0; i < node.outputs; ++i) map[node.first_output + i] = body.node(added).first_output + i;
      if (trains && std::ranges::count(whole_.statistics, static_cast<NodeId>(id)) > 0) updates_.nodes.push_back(added);
    }
  }

  Values gradients_at(int border) const {
    Values values;
    const Values& crossing = whole_.training.crossing[static_cast<size_t>(border)];
    for (size_t i = 0; i < crossing.size(); ++i)
      if (whole_.has_gradient[static_cast<size_t>(border)][i]) values.push_back(crossing[i]);
    return values;
  }

  // Adds an exchange with a rank; received tensors have the types of those values of the whole model. No node is added
  // where nothing is exchanged.
  std::vector<Tensor> exchange(int peer, const std::vector<Tensor>& sent, const Values& received,
                               std::vector<NodeId>& nodes) {
    if (sent.empty() && received.empty()) return {};
    std::vector<TensorType> types;
    for (const ValueId value : received) types.push_back(source_.value(value).type);
    nodes.push_back(ops::exchange_peer(turn_, peer, sent, types));
    std::vector<Tensor> result;
    for (size_t i = 0; i < types.size(); ++i)
      result.emplace_back(graph_, graph_.body().node(nodes.back()).first_output + static_cast<ValueId>(i));
    return result;
  }

  void take(const StageTurn& turn) {
    switch (turn.kind) {
      case StageTurn::Kind::Forward:
        return add_forward(turn.forward);
      case StageTurn::Kind::Backward:
        return add_backward(turn.backward);
      case StageTurn::Kind::ExchangeBefore:
        return exchange_before(turn);
      case StageTurn::Kind::ExchangeAfter:
        return exchange_after(turn);
    }
  }

  void exchange_before(const StageTurn& turn) {
    const int border = place_.stage - 1;
    std::vector<Tensor> sent;
    if (turn.backward >= 0) sent = std::exchange(sent_[static_cast<size_t>(turn.backward)], {});
    const Values& crossing = whole_.training.crossing[static_cast<size_t>(border)];
    const std::vector<Tensor> got = exchange(border, sent, turn.forward >= 0 ? crossing : Values(), updates_.nodes);
    for (size_t i = 0; i < got.size(); ++i) maps_[static_cast<size_t>(turn.forward)][crossing[i]] = got[i].id();
  }

  void exchange_after(const StageTurn& turn) {
    std::vector<Tensor> sent;
    if (turn.forward >= 0)
      for (const ValueId value : whole_.training.crossing[static_cast<size_t>(place_.stage)])
        sent.emplace_back(graph_, maps_[static_cast<size_t>(turn.forward)].at(value));
    const Values expected = turn.backward >= 0 ? gradients_at(place_.stage) : Values();
    std::vector<Tensor> got = exchange(place_.stage + 1, sent, expected, updates_.nodes);
    if (turn.backward >= 0) received_[static_cast<size_t>(turn.backward)] = std::move(got);
  }

  void add_forward(int64_t micro_batch) {
    ValueMap& map = maps_[static_cast<size_t>(micro_batch)];
    map_placeholders(static_cast<size_t>(micro_batch), map);
    begins_[static_cast<size_t>(micro_batch)] = static_cast<NodeId>(graph_.body().nodes().size());
    add_nodes(whole_.training, micro_batch, map, true);
  }

  std::vector<autodiff::Seed> seeds_of(size_t micro_batch) {
    if (place_.is_last()) {
      const Tensor loss(graph_, maps_[micro_batch].at(whole_.passes.loss.id()));
      return {{loss, reshape(graph_.scalar(1), loss.shape())}};
    }
    std::vector<autodiff::Seed> seeds;
    const Values values = gradients_at(place_.stage);
    for (size_t i = 0; i < values.size(); ++i)
      seeds.push_back({Tensor(graph_, maps_[micro_batch].at(values[i])), received_[micro_batch][i]});
    return seeds;
  }

  void add_backward(int64_t number) {
    const auto micro_batch = static_cast<size_t>(number);
    std::vector<Tensor> wrt;
    for (const WeightUse& use : uses_) wrt.push_back(use.seen);
    const Values before = place_.stage > 0 ? gradients_at(place_.stage - 1) : Values();
    for (const ValueId value : before) wrt.emplace_back(graph_, maps_[micro_batch].at(value));
    const std::vector<autodiff::Seed> seeds = seeds_of(micro_batch);
    const std::vector<Gradient> gradients =
        autodiff::differentiate_from(seeds, wrt, {.first_node = begins_[micro_batch]});
    for (size_t i = 0; i < wrt.size(); ++i) {
      if (i >= uses_.size()) {
        sent_[micro_batch].push_back(autodiff::densify(gradients[i], wrt[i].shape()));
      } else if (gradients[i].is_set()) {
        const Tensor weight(graph_, shared_.at(uses_[i].weight));
        updates_.nodes.push_back(ops::add_gradient(uses_[i].sum, gradients[i], weight));
        uses_[i].has_gradient = true;
      }
    }
  }

  // The sum over all uses of a weight, on all ranks that have it: each rank adds its own uses to the sum of the rank
  // before, and the sum of the last one goes back through all of them.
  Tensor join_uses(const StageWeight& weight) {
    Tensor sum = uses_[weight.own_uses.front()].sum;
    const auto own = std::ranges::find(weight.users, place_.stage);
    const Values number{uses_[weight.own_uses.front()].weight};
    const bool is_first = own == weight.users.begin(), is_last = own + 1 == weight.users.end();
    if (!is_first) updates_.nodes.push_back(ops::add_into(sum, exchange(*(own - 1), {}, number, updates_.nodes)[0]));
    for (size_t i = 1; i < weight.own_uses.size(); ++i)
      updates_.nodes.push_back(ops::add_into(sum, uses_[weight.own_uses[i]].sum));
    if (!is_last) {
      exchange(*(own + 1), {sum}, {}, updates_.nodes);
      updates_.nodes.push_back(ops::assign(sum, exchange(*(own + 1), {}, number, updates_.nodes)[0]));
    }
    if (!is_first) exchange(*(own - 1), {sum}, {}, updates_.nodes);
    return sum;
  }

  // Adds up the squares of all gradients in the order of weights, whatever the number of ranks: each rank adds its own
  // to the sum of the rank before, and the last sum goes back.
  autodiff::NormChain chain_norm() {
    if (place_.stages == 1) return {};
    autodiff::NormChain chain;
    for (const StageWeight& weight : weights_) chain.counts.push_back(weight.users.front() == place_.stage);
    const Values number{whole_.passes.loss.id()};
    const auto as_scalar = [](Tensor x) { return reshape(x, Shape{}); };
    if (place_.stage > 0) chain.before = as_scalar(exchange(place_.stage - 1, {}, number, updates_.nodes)[0]);
    chain.finish = [this, number, as_scalar](Tensor sum) {
      if (!place_.is_last()) {
        exchange(place_.stage + 1, {sum}, {}, updates_.nodes);
        sum = as_scalar(exchange(place_.stage + 1, {}, number, updates_.nodes)[0]);
      }
      if (place_.stage > 0) exchange(place_.stage - 1, {sum}, {}, updates_.nodes);
      return sum;
    };
    return chain;
  }

  void add_update(const Optimiser& optimiser) {
    const Scope scope(graph_, "optimiser");
    std::vector<Gradient> sums;
    std::vector<Tensor> weights;
    for (const StageWeight& weight : weights_) {
      weights.push_back(weight.weight);
      const bool is_trained = weight.users.size() > 1 ||
                              std::ranges::any_of(weight.own_uses, [&](size_t use) { return uses_[use].has_gradient; });
      sums.push_back({is_trained ? join_uses(weight) : Tensor(), {}});
    }
    const auto samples = static_cast<double>(place_.micro_batches * place_.samples);
    const autodiff::NormChain chain = optimiser.global_clip_norm != 0 ? chain_norm() : autodiff::NormChain();
    autodiff::add_weight_updates(optimiser, sums, weights, graph_.scalar(static_cast<float>(1 / samples)), updates_,
                                 chain);
    for (const WeightUse& use : uses_) updates_.nodes.push_back(ops::clear(use.sum));
  }

  void add_fetches() {
    result_.passes.loss = whole_.passes.loss;
    result_.passes.sums = whole_.passes.sums;
    if (!place_.is_last()) return;
    for (const ValueMap& map : maps_)
      for (const ValueId value : ids_of(whole_.passes.loss, whole_.passes.sums))
        result_.fetches.emplace_back(graph_, map.at(value));
  }

  void add_evaluation_pass() {
    const StageCut& cut = whole_.evaluation;
    ValueMap map;
    map_placeholders(0, map);
    if (place_.stage > 0) {
      const Values& crossing = cut.crossing[static_cast<size_t>(place_.stage) - 1];
      const std::vector<Tensor> got = exchange(place_.stage - 1, {}, crossing, result_.eval_exchanges);
      for (size_t i = 0; i < got.size(); ++i) map[crossing[i]] = got[i].id();
    }
    add_nodes(cut, 0, map, false);
    if (!place_.is_last()) {
      std::vector<Tensor> sent;
      for (const ValueId value : cut.crossing[static_cast<size_t>(place_.stage)])
        sent.emplace_back(graph_, map.at(value));
      exchange(place_.stage + 1, sent, {}, result_.eval_exchanges);
    }
    result_.passes.eval_loss = whole_.passes.eval_loss;
    result_.passes.eval_sums = whole_.passes.eval_sums;
    if (place_.is_last())
      for (const ValueId value : ids_of(whole_.passes.eval_loss, whole_.passes.eval_sums))
        result_.eval_fetches.emplace_back(graph_, map.at(value));
  }

  Graph& graph_;
  const WholeModel& whole_;
  const Body& source_;
  const StagePlace& place_;
  StageGraph result_;
  Updates updates_;
  Tensor turn_;
  ValueMap shared_;  // variables and constants, which all micro-batches use
  std::vector<StageWeight> weights_;
  std::vector<WeightUse> uses_;
  std::map<std::pair<NodeId, ValueId>, ValueId> seen_;  // by node and weight of the whole model: WeightUse::seen
  // By micro-batch: values, where its forward nodes begin, gradients that came, and those that go.
  std::vector<ValueMap> maps_;
  std::vector<NodeId> begins_;
  std::vector<std::vector<Tensor>> received_, sent_;
};

}  // namespace

StageGraph build_stage(Graph& graph, const ModelSpec& spec, const Optimiser& optimiser,
                       const InputConversion& conversion, const Freeze& freeze, const StagePlace& place) {
  autodiff::check(optimiser);
  if (optimiser.scales_loss)
    throw Error(
        "a pipeline can't scale its loss: one rank would not know that the numbers of another are not finite; "
        "keep values in bf16 instead of f16",
        ErrorKind::Usage);
  const WholeModel whole = build_whole(graph.store(), spec, conversion, freeze, place);
  return StageBuilder(graph, whole, place).build(optimiser);
}

}  // namespace plimsoll::model
