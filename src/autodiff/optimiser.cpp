#include <plimsoll/optimiser.h>

#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "graph/body.h"
#include "ops/ops.h"

namespace plimsoll::autodiff {
namespace {

using graph::Attrs;

void expect(bool holds, std::string_view setting, std::string_view what, double value) {
  if (!holds) throw Error(fmt::format("optimiser: {} must be {} but is {}", setting, what, value));
}

void check(const Optimiser& o) {
  const auto at_least_zero = [](std::string_view setting, double value) {
    expect(std::isfinite(value) && value >= 0, setting, "zero or more", value);
  };
  const auto below_one = [](std::string_view setting, double value) {
    expect(value >= 0 && value < 1, setting, "at least 0 and below 1", value);
  };
  at_least_zero("learning_rate", o.learning_rate);
  at_least_zero("weight_decay", o.weight_decay);
  at_least_zero("clip_norm", o.clip_norm);
  at_least_zero("clip_value", o.clip_value);
  at_least_zero("global_clip_norm", o.global_clip_norm);
  below_one("momentum", o.momentum);
  below_one("beta1", o.beta1);
  below_one("beta2", o.beta2);
  below_one("rho", o.rho);
  expect(std::isfinite(o.epsilon) && o.epsilon > 0, "epsilon", "positive", o.epsilon);
  const int clips = (o.clip_norm != 0) + (o.clip_value != 0) + (o.global_clip_norm != 0);
  if (clips > 1) throw Error("optimiser: set at most one of clip_norm, clip_value and global_clip_norm");
  if (o.epsilon_after_correction && o.kind != Optimiser::Kind::Adam)
    throw Error("optimiser: epsilon_after_correction is a setting of adam alone");
  if (o.nesterov && o.momentum == 0) throw Error("optimiser: nesterov needs a momentum; set momentum = 0.9");
}

Attrs settings_of(const Optimiser& o) {
  Attrs attrs;
  const auto set = [&](std::string_view key, double value) { attrs.set(key, value); };
  if (o.kind != Optimiser::Kind::Adam && o.momentum != 0) set("momentum", o.momentum);
  if (o.nesterov) attrs.set("nesterov", int64_t{1});
  if (o.kind == Optimiser::Kind::Adam) {
    set("beta1", o.beta1);
    set("beta2", o.beta2);
  }
  if (o.kind == Optimiser::Kind::RmsProp) set("rho", o.rho);
  if (o.kind != Optimiser::Kind::Sgd) set("epsilon", o.epsilon);
  if (o.epsilon_after_correction) attrs.set("epsilon_after_correction", int64_t{1});
  if (o.weight_decay != 0) set("weight_decay", o.weight_decay);
  if (o.clip_value != 0) set("clip_value", o.clip_value);
  return attrs;
}

// min(1, limit / norm), from the squared norm.
Tensor clip_factor(Tensor squares, double limit) {
  Graph& graph = squares.graph();
  return minimum(graph.scalar(1), scale(pow(squares, graph.scalar(-0.5F)), limit));
}

// State and update of one weight.
class Updater {
 public:
  Updater(const Optimiser& optimiser, Tensor rate, Tensor step)
      : optimiser_(optimiser), settings_(settings_of(optimiser)), rate_(rate), step_(step) {}

  NodeId add(Tensor weight, const Gradient& gradient, Tensor factor) const {
    const Optimiser& o = optimiser_;
    const Tensor none;
    const auto state = [&](std::string_view name, bool wanted) {
      const DType dtype = o.half_state ? DType::BF16 : DType::F32;
      return wanted ? weight.graph().variable(fmt::format("{}/{}", weight.name(), name), dtype, weight.shape(),
                                              Init::zeros(), VariableRole::Optimiser)
                    : none;
    };
    const std::string name = fmt::format("{}/update", weight.name());
    switch (o.kind) {
      case Optimiser::Kind::Sgd:
        return ops::sgd(weight, gradient, rate_, state("velocity", o.momentum != 0), factor, settings_, name);
      case Optimiser::Kind::Adam: {
        const Tensor m = state("m", true);
        const Tensor v = state("v", true);
        return ops::adam(weight, gradient, rate_, step_, m, v, factor, settings_, name);
      }
      case Optimiser::Kind::RmsProp: {
        const Tensor square = state("square", true);
        const Tensor velocity = state("velocity", o.momentum != 0);
        const Tensor mean = state("mean", o.centered);
        return ops::rmsprop(weight, gradient, rate_, square, velocity, mean, factor, settings_, name);
      }
    }
    throw Error("optimiser: unknown kind");
  }

 private:
  const Optimiser& optimiser_;
  Attrs settings_;
  Tensor rate_, step_;
};

std::vector<Tensor> trained_variables(Graph& graph) {
  std::vector<Tensor> weights;
  for (const graph::Variable& variable : graph.body().variables())
    if (variable.role() == VariableRole::Weight) weights.emplace_back(graph, variable.value);
  return weights;
}

void expect_trainable(Tensor weight, const graph::Body& graph) {
  if (weight.owner() != &graph) throw Error("minimize: a weight is unset or belongs to another graph than the loss");
  if (graph.value(weight.id()).kind != graph::ValueKind::Variable || weight.dtype() != DType::F32)
    throw Error(
        fmt::format("minimize: '{}' ({}) is no variable of f32 and can't be trained; list the weights to train, or "
                    "give a variable that is not trained the role Statistic",
                    weight.name(), to_string(weight.type())));
}

}  // namespace
}  // namespace plimsoll::autodiff

namespace plimsoll {

Optimiser Optimiser::sgd(double learning_rate, double momentum, bool nesterov) {
  return {.kind = Kind::Sgd, .learning_rate = learning_rate, .momentum = momentum, .nesterov = nesterov};
}

Optimiser Optimiser::adam(double learning_rate, double beta1, double beta2, double epsilon) {
  return {.kind = Kind::Adam, .learning_rate = learning_rate, .beta1 = beta1, .beta2 = beta2, .epsilon = epsilon};
}

Optimiser Optimiser::adamw(double learning_rate, double weight_decay) {
  return {.kind = Kind::Adam, .learning_rate = learning_rate, .weight_decay = weight_decay};
}

Optimiser Optimiser::rmsprop(double learning_rate, double rho, double momentum, bool centered) {
  return {
      .kind = Kind::RmsProp, .learning_rate = learning_rate, .momentum = momentum, .rho = rho, .centered = centered};
}

Updates minimize(Tensor loss, const Optimiser& optimiser, std::span<const Tensor> weights) {
  using namespace autodiff;
  check(optimiser);
  Graph& graph = loss.graph();
  const std::vector<Tensor> all =
      weights.empty() ? trained_variables(graph) : std::vector<Tensor>(weights.begin(), weights.end());
  for (const Tensor& weight : all) expect_trainable(weight, graph.body());
  const std::vector<Gradient> grads = gradients(loss, all);
  if (std::none_of(grads.begin(), grads.end(), [](const Gradient& grad) { return grad.is_set(); }))
    throw Error(fmt::format("minimize: there is nothing to train: '{}' depends on none of {} weights", loss.name(),
                            all.size()));

  const Scope scope(graph, "optimiser");
  Updates updates;
  // Layers that keep statistics have added their own updates: they belong to the same step.
  for (NodeId id = 0; id < static_cast<NodeId>(graph.body().nodes().size()); ++id)
    if (graph.body().node(id).op->traits.updates != 0) updates.nodes.push_back(id);
  updates.learning_rate =
      graph.variable("learning_rate", DType::F32, {}, Init::constant(optimiser.learning_rate), VariableRole::Optimiser);
  updates.step = graph.variable("step", DType::I64, {}, Init::zeros(), VariableRole::Optimiser);
  updates.nodes.push_back(ops::count_step(updates.step));

  Tensor global_factor;
  if (optimiser.global_clip_norm != 0) {
    Tensor squares;
    for (size_t i = 0; i < all.size(); ++i) {
      if (!grads[i].is_set()) continue;
      const Tensor more = ops::sum_squares(grads[i], all[i].shape());
      squares = squares.is_set() ? add(squares, more) : more;
    }
    if (squares.is_set()) global_factor = clip_factor(squares, optimiser.global_clip_norm);
  }
  const Updater updater(optimiser, updates.learning_rate, updates.step);
  for (size_t i = 0; i < all.size(); ++i) {
    if (!grads[i].is_set()) continue;
    const Tensor factor = optimiser.clip_norm != 0
                              ? clip_factor(ops::sum_squares(grads[i], all[i].shape()), optimiser.clip_norm)
                              : global_factor;
    updates.nodes.push_back(updater.add(all[i], grads[i], factor));
  }
  return updates;
}

}  // namespace plimsoll
