#include "autodiff/updates.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include "autodiff/gradients.h"
#include "autodiff/treatment.h"
#include "base/nearest.h"
#include "graph/body.h"
#include "kernels/rank_slices.h"
#include "ops/ops.h"
#include "ops/updates/rule.h"

namespace plimsoll::autodiff {
namespace {

using graph::Attrs;

// min(1, limit / norm) x factor, from the squared norm before the factor.
Tensor clip_factor(Tensor squares, double limit, Tensor factor) {
  Graph& graph = squares.graph();
  if (factor.is_set()) squares = mul(squares, mul(factor, factor));
  const Tensor clip = minimum(graph.scalar(1), scale(pow(squares, graph.scalar(-0.5F)), limit));
  return factor.is_set() ? mul(clip, factor) : clip;
}

// A name matches as it is, or as if a slash stood before it: "*/bias" is the bias of a layer, and one in no scope.
bool matches_any(const std::vector<std::string>& patterns, std::string_view name) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    return fits_pattern(pattern, name) || fits_pattern(pattern, fmt::format("/{}", name));
  });
}

const WeightGroup* group_of(const Optimiser& optimiser, std::string_view name) {
  for (const WeightGroup& group : optimiser.groups)
    if (matches_any(group.patterns, name)) return &group;
  return nullptr;
}

// Patterns that match nothing are taken for a typing error: all of no_decay, or those of a group.
void expect_patterns_match(const Optimiser& optimiser, std::span<const Tensor> weights) {
  const auto expect_some = [&](const std::vector<std::string>& patterns, std::string_view what) {
    if (patterns.empty() || std::ranges::any_of(weights, [&](Tensor w) { return matches_any(patterns, w.name()); }))
      return;
    throw Error(fmt::format("optimiser: no weight matches {} {}; weights are called '{}' and so on", what,
                            fmt::join(patterns, ", "), weights.empty() ? "" : weights[0].name()),
                ErrorKind::Usage);
  };
  expect_some(optimiser.no_decay, "no_decay");
  for (const WeightGroup& group : optimiser.groups) expect_some(group.patterns, "the group of");
}

// State and update of one weight.
class Updater {
 public:
  Updater(const Optimiser& optimiser, Tensor rate, Tensor step, SharedUpdates& shared)
      : optimiser_(optimiser),
        rule_(rule_of(optimiser)),
        settings_(optimiser.name(), optimiser.settings()),
        rate_(rate),
        step_(step),
        shared_(shared) {}

  // Adds the update, and what belongs to it, to `nodes`.
  void add(Tensor weight, const Gradient& gradient, Tensor factor, std::vector<NodeId>& nodes) const {
    const SharedWeight* const is_slice = shared_.shared.find(weight);
    const bool is_shared = is_slice == nullptr && shared_.shared.has(Sharding::State, weight.shape());
    const auto make_state = [&](std::string_view name, const Init& init) {
      const DType dtype = optimiser_.state_bits == 32 ? DType::F32 : DType::BF16;
      if (!is_shared) {
        Tensor added = add_state(weight, name, dtype, weight.shape(), init);
        if (is_slice != nullptr) shared_.variables.push_back({added, is_slice->whole});
        return added;
      }
      const int64_t elements = element_count(weight.shape()).fixed();
      Tensor slice = add_state(weight, name, dtype, {kernels::slice_length(elements, shared_.shared.ranks)}, init);
      shared_.variables.push_back({slice, weight.shape()});
      return slice;
    };
    const auto make_whole = [&](std::string_view name, DType dtype, const Shape& shape) {
      return add_state(weight, name, dtype, shape, Init::zeros());
    };
    Attrs attrs;
    const WeightGroup* const group = group_of(optimiser_, weight.name());
    double decay = group != nullptr ? group->weight_decay.value_or(optimiser_.weight_decay) : optimiser_.weight_decay;
    if (matches_any(optimiser_.no_decay, weight.name())) decay = 0;
    const Regulariser& regulariser = stored(weight).regulariser;
    const double coupled = (optimiser_.couples_decay ? decay : 0) + 2 * regulariser.l2;
    if (coupled != 0) attrs.set("coupled_decay", coupled);
    if (decay != 0 && !optimiser_.couples_decay) attrs.set("weight_decay", decay);
    if (group != nullptr && group->rate_factor != 1) attrs.set("rate_factor", group->rate_factor);
    if (optimiser_.clip_value != 0) attrs.set("clip_value", optimiser_.clip_value);
    if (is_shared) attrs.set("slices", shared_.shared.ranks);
    ops::WeightUpdate update{.weight = weight,
                             .gradient = gradient,
                             .rate = rate_,
                             .step = step_,
                             .factor = factor,
                             .settings = settings_,
                             .attrs = std::move(attrs),
                             .name = fmt::format("{}/update", weight.name()),
                             .state_bits = optimiser_.state_bits,
                             .make_state = make_state,
                             .make_whole = make_whole};
    if (regulariser.l1 != 0) add_signs(update, regulariser.l1);
    const NodeId node = rule_.add(update);
    nodes.insert(nodes.end(), update.before.begin(), update.before.end());
    nodes.push_back(node);
    if (const std::optional<NodeId> constraint = add_constraint(weight, is_slice == nullptr))
      nodes.push_back(*constraint);
    if (optimiser_.average == 0) return;
    const Tensor average = add_state(weight, "average", DType::F32, weight.shape(), Init::zeros());
    if (is_slice != nullptr) shared_.variables.push_back({average, is_slice->whole});
    nodes.push_back(ops::average_weight(average, weight, step_, optimiser_.average));
  }

 private:
  static Tensor add_state(Tensor weight, std::string_view name, DType dtype, const Shape& shape, const Init& init) {
    return weight.graph().variable(fmt::format("{}/{}", weight.name(), name), dtype, shape, init,
                                   VariableRole::Optimiser);
  }

  // gradient + l1 sign(w), after what else changes the gradient.
  static void add_signs(ops::WeightUpdate& update, double l1) {
    Tensor g = update.dense_gradient().value;
    if (!(g.shape() == update.weight.shape()))
      throw Error(fmt::format("'{}' has an l1 regulariser, but ranks share its gradient; train without sharding",
                              update.weight.name()),
                  ErrorKind::Usage);
    if (update.factor.is_set()) g = mul(g, update.factor);
    if (update.attrs.has("clip_value")) g = clip(g, -update.attrs.f("clip_value"), update.attrs.f("clip_value"));
    update.gradient = {plimsoll::add(g, scale(sign(update.weight), l1)), {}};
    update.factor = {};
    update.attrs.erase("clip_value");
  }

  const Optimiser& optimiser_;
  const ops::OptimiserRule& rule_;
  ops::RuleSettings settings_;
  Tensor rate_, step_;
  SharedUpdates& shared_;
};

void expect_trainable(Tensor weight, const graph::Body& graph) {
  if (weight.owner() != &graph) throw Error("minimize: a weight is unset or belongs to another graph than the loss");
  if (graph.value(weight.id()).kind != graph::ValueKind::Variable || weight.dtype() != DType::F32)
    throw Error(
        fmt::format("minimize: '{}' ({}) is no variable of f32 and can't be trained; list the weights to train, or "
                    "give a variable that is not trained the role Statistic",
                    weight.name(), to_string(weight.type())));
}

}  // namespace

std::vector<Tensor> trained_weights(Graph& graph, std::span<const Tensor> weights) {
  std::vector<Tensor> all(weights.begin(), weights.end());
  if (all.empty())
    for (const graph::Variable& variable : graph.body().variables())
      if (variable.role() == VariableRole::Weight) all.emplace_back(graph, variable.value);
  for (size_t i = 0; i < all.size(); ++i) {
    expect_trainable(all[i], graph.body());
    if (std::find(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(i), all[i]) !=
        all.begin() + static_cast<std::ptrdiff_t>(i))
      throw Error(fmt::format("minimize: weight '{}' is listed twice", all[i].name()));
  }
  return all;
}

std::vector<Gradient> training_gradients(Tensor loss, std::span<const Tensor> weights, Tensor seed) {
  if (seed.is_set()) seed = reshape(seed, loss.shape());
  std::vector<Gradient> grads = gradients(loss, weights, seed);
  if (std::none_of(grads.begin(), grads.end(), [](const Gradient& grad) { return grad.is_set(); }))
    throw Error(fmt::format("minimize: there is nothing to train: '{}' depends on none of {} weights", loss.name(),
                            weights.size()));
  return grads;
}

// A guarded one is a copy made by add_again, not the layer's own node.
bool is_statistics(const graph::Body& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  return node.op->traits.statistics && graph.attrs(node).i("guarded") == 0;
}

std::vector<NodeId> find_statistics(const graph::Body& graph, std::span<const Gradient> gradients) {
  std::vector<bool> needed(graph.nodes().size(), false);
  const auto producer_of = [&](ValueId value) { return graph.value(value).producer; };
  const auto need = [&](ValueId value) {
    if (const NodeId producer = producer_of(value); producer >= 0) needed[static_cast<size_t>(producer)] = true;
  };
  for (const Gradient& gradient : gradients) {
    if (gradient.is_set()) need(gradient.value.id());
    if (gradient.is_sparse()) need(gradient.rows.id());
  }
  for (auto id = static_cast<NodeId>(graph.nodes().size()) - 1; id >= 0; --id)
    if (needed[static_cast<size_t>(id)])
      for (const ValueId input : graph.inputs(graph.node(id))) need(input);
  // A mean of statistics, or another node of one input, may stand between the layer and the update.
  const auto comes_through = [&](ValueId value) {
    NodeId producer = producer_of(value);
    while (producer >= 0 && !needed[static_cast<size_t>(producer)] && graph.node(producer).inputs == 1)
      producer = producer_of(graph.inputs(graph.node(producer))[0]);
    return producer < 0 || needed[static_cast<size_t>(producer)];
  };
  std::vector<NodeId> found;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const std::span<const ValueId> inputs = graph.inputs(graph.node(id));
    if (is_statistics(graph, id) && std::all_of(inputs.begin(), inputs.end(), comes_through)) found.push_back(id);
  }
  return found;
}

Guard::Guard(Graph& graph, Tensor guard)
    : graph_(graph.body()), before_(graph_.set_guard(guard.is_set() ? guard.id() : -1)) {}
Guard::~Guard() { graph_.set_guard(before_); }

NodeId add_again(graph::Body& graph, NodeId update) {
  const graph::Node node = graph.node(update);
  const std::span<const ValueId> inputs = graph.inputs(node);
  return graph.add_node(*node.op, std::vector<ValueId>(inputs.begin(), inputs.end()), graph.attrs(node), {});
}

LossScale make_loss_scale(Graph& graph, const Optimiser& optimiser) {
  if (!optimiser.scales_loss) return {};
  const Scope scope(graph, "optimiser");
  const auto add = [&](std::string_view name, DType dtype, double value) {
    return graph.variable(name, dtype, {}, Init::constant(value), VariableRole::Optimiser);
  };
  const Tensor scale = add("loss_scale", DType::F32, optimiser.initial_loss_scale);
  return {scale, add("finite_steps", DType::I64, 0)};
}

Tensor are_finite(std::span<const Gradient> gradients) {
  Tensor all;
  for (const Gradient& gradient : gradients) {
    if (!gradient.is_set()) continue;
    const Tensor one = ops::all_finite(gradient.value);
    all = all.is_set() ? mul(all, one) : one;
  }
  return all;
}

Updates make_settings(Graph& graph, const Optimiser& optimiser) {
  Updates updates;
  updates.learning_rate =
      graph.variable("learning_rate", DType::F32, {}, Init::constant(optimiser.learning_rate), VariableRole::Optimiser);
  updates.step = graph.variable("step", DType::I64, {}, Init::zeros(), VariableRole::Optimiser);
  return updates;
}

void add_weight_updates(const Optimiser& optimiser, std::span<const Gradient> gradients,
                        std::span<const Tensor> weights, Tensor factor, Updates& updates, const NormChain& chain) {
  SharedUpdates none;
  add_weight_updates(optimiser, gradients, weights, factor, updates, none, chain);
}

void add_weight_updates(const Optimiser& optimiser, std::span<const Gradient> gradients,
                        std::span<const Tensor> weights, Tensor factor, Updates& updates, SharedUpdates& shared,
                        const NormChain& chain) {
  expect_patterns_match(optimiser, weights);
  updates.nodes.push_back(ops::count_step(updates.step));
  const auto squares_of = [&](size_t i) {
    // Row-major, as slices are: the sum has the same bits whether or not ranks share gradients.
    if (shared.whole_gradient) return ops::sum_squares(shared.whole_gradient(i), weights[i].shape(), true);
    return ops::sum_squares(gradients[i], weights[i].shape());
  };
  Tensor global_factor = factor;
  if (optimiser.global_clip_norm != 0) {
    Tensor squares = chain.before;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (!gradients[i].is_set() || (!chain.counts.empty() && !chain.counts[i])) continue;
      const Tensor more = squares_of(i);
      squares = squares.is_set() ? add(squares, more) : more;
    }
    if (chain.finish) squares = chain.finish(squares.is_set() ? squares : updates.step.graph().scalar(0));
    if (squares.is_set()) global_factor = clip_factor(squares, optimiser.global_clip_norm, factor);
  }
  const Updater updater(optimiser, updates.learning_rate, updates.step, shared);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!gradients[i].is_set()) continue;
    const Tensor by =
        optimiser.clip_norm != 0 ? clip_factor(squares_of(i), optimiser.clip_norm, factor) : global_factor;
    updater.add(weights[i], gradients[i], by, updates.nodes);
  }
}

}  // namespace plimsoll::autodiff
