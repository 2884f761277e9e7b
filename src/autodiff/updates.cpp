#include "autodiff/updates.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "autodiff/gradients.h"
#include "graph/body.h"
#include "kernels/rank_slices.h"
#include "ops/ops.h"

namespace plimsoll::autodiff {
namespace {

using graph::Attrs;

Attrs settings_of(const Optimiser& o) {
  using Kind = Optimiser::Kind;
  Attrs attrs;
  const auto set = [&](std::string_view key, double value) { attrs.set(key, value); };
  if ((o.kind == Kind::Sgd || o.kind == Kind::RmsProp) && o.momentum != 0) set("momentum", o.momentum);
  if (o.nesterov) attrs.set("nesterov", int64_t{1});
  if (o.kind == Kind::Adam || o.kind == Kind::Lion) {
    set("beta1", o.beta1);
    set("beta2", o.beta2);
  }
  if (o.kind == Kind::RmsProp) set("rho", o.rho);
  if (o.kind == Kind::Adam || o.kind == Kind::RmsProp) set("epsilon", o.epsilon);
  if (o.epsilon_after_correction) attrs.set("epsilon_after_correction", int64_t{1});
  if (o.kind == Kind::Adafactor) {
    set("beta2_decay", o.beta2_decay);
    set("epsilon1", o.epsilon1);
    set("epsilon2", o.epsilon2);
    set("clip_threshold", o.clip_threshold);
    attrs.set("relative_step", int64_t{o.relative_step});
  }
  if (o.weight_decay != 0) set("weight_decay", o.weight_decay);
  if (o.clip_value != 0) set("clip_value", o.clip_value);
  return attrs;
}

// min(1, limit / norm) x factor, from the squared norm before the factor.
Tensor clip_factor(Tensor squares, double limit, Tensor factor) {
  Graph& graph = squares.graph();
  if (factor.is_set()) squares = mul(squares, mul(factor, factor));
  const Tensor clip = minimum(graph.scalar(1), scale(pow(squares, graph.scalar(-0.5F)), limit));
  return factor.is_set() ? mul(clip, factor) : clip;
}

// State and update of one weight.
class Updater {
 public:
  Updater(const Optimiser& optimiser, Tensor rate, Tensor step, SharedUpdates& shared)
      : optimiser_(optimiser), settings_(settings_of(optimiser)), rate_(rate), step_(step), shared_(shared) {}

  NodeId add(Tensor weight, const Gradient& gradient, Tensor factor) const {
    const Optimiser& o = optimiser_;
    const DType dtype = o.state_bits == 32 ? DType::F32 : DType::BF16;
    const SharedWeight* const is_slice = shared_.shared.find(weight);
    const bool is_shared = is_slice == nullptr && shared_.shared.has(Sharding::State, weight.shape());
    Attrs settings = settings_;
    if (is_shared) settings.set("slices", shared_.shared.ranks);
    const auto state = [&](std::string_view name, bool wanted = true) {
      if (!wanted) return Tensor();
      if (!is_shared) {
        Tensor added = add_state(weight, name, dtype, weight.shape());
        if (is_slice != nullptr) shared_.variables.push_back({added, is_slice->whole});
        return added;
      }
      const int64_t elements = element_count(weight.shape()).fixed();
      Tensor slice = add_state(weight, name, dtype, {kernels::slice_length(elements, shared_.shared.ranks)});
      shared_.variables.push_back({slice, weight.shape()});
      return slice;
    };
    const std::string name = fmt::format("{}/update", weight.name());
    switch (o.kind) {
      case Optimiser::Kind::Sgd:
        return ops::sgd(weight, gradient, rate_, state("velocity", o.momentum != 0), factor, settings, name);
      case Optimiser::Kind::Adam: {
        if (o.state_bits == 8) return add_adam_in_bytes(weight, gradient, factor, name);
        const Tensor m = state("m");
        return ops::adam(weight, gradient, rate_, step_, m, state("v"), factor, settings, name);
      }
      case Optimiser::Kind::RmsProp: {
        const Tensor square = state("square");
        const Tensor velocity = state("velocity", o.momentum != 0);
        const Tensor mean = state("mean", o.centered);
        return ops::rmsprop(weight, gradient, rate_, square, velocity, mean, factor, settings, name);
      }
      case Optimiser::Kind::Lion:
        return ops::lion(weight, gradient, rate_, state("m"), factor, settings, name);
      case Optimiser::Kind::Adafactor:
        return add_adafactor(weight, gradient, factor, name);
    }
    throw Error("optimiser: unknown kind");
  }

 private:
  static Tensor add_state(Tensor weight, std::string_view name, DType dtype, const Shape& shape) {
    return weight.graph().variable(fmt::format("{}/{}", weight.name(), name), dtype, shape, Init::zeros(),
                                   VariableRole::Optimiser);
  }

  NodeId add_adafactor(Tensor weight, const Gradient& gradient, Tensor factor, const std::string& name) const {
    const std::vector<Shape> shapes = ops::adafactor_state(weight.shape());
    std::vector<Tensor> state;
    for (size_t i = 0; i < shapes.size(); ++i)
      state.push_back(add_state(weight, shapes.size() == 1 ? "v" : i == 0 ? "r" : "c", DType::F32, shapes[i]));
    const Gradient dense{densify(gradient, weight.shape()), {}};
    return ops::adafactor(weight, dense, rate_, step_, state, factor, settings_, name);
  }

  NodeId add_adam_in_bytes(Tensor weight, const Gradient& gradient, Tensor factor, const std::string& name) const {
    const bool is_small = element_count(weight.shape()).fixed() < ops::kLeastInBytes;
    if (is_small) {
      const Tensor m = add_state(weight, "m", DType::F32, weight.shape());
      const Tensor v = add_state(weight, "v", DType::F32, weight.shape());
      return ops::adam(weight, gradient, rate_, step_, m, v, factor, settings_, name);
    }
    // Under other names than floats: a file with one kind is not read as the other.
    const Tensor m = add_state(weight, "m_codes", DType::U8, weight.shape());
    const Tensor v = add_state(weight, "v_codes", DType::U8, weight.shape());
    const Shape blocks{ops::blocks_of_bytes(element_count(weight.shape()).fixed())};
    const Tensor m_scale = add_state(weight, "m_scale", DType::F32, blocks);
    const Tensor v_scale = add_state(weight, "v_scale", DType::F32, blocks);
    return ops::adam_in_bytes(weight, gradient, rate_, step_, m, v, m_scale, v_scale, factor, settings_, name);
  }

  const Optimiser& optimiser_;
  Attrs settings_;
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
    updates.nodes.push_back(updater.add(weights[i], gradients[i], by));
  }
}

}  // namespace plimsoll::autodiff
