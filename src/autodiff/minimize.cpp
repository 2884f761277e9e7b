#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "autodiff/updates.h"
#include "graph/body.h"
#include "graph/recorder.h"
#include "ops/ops.h"

namespace plimsoll {
namespace autodiff {
namespace {

// What undoes the scale; unset where the loss is not scaled.
Tensor unscale_factor(const LossScale& scale) {
  return scale.is_set() ? div(scale.scale.graph().scalar(1), scale.scale) : Tensor();
}

// Called in the scope "optimiser".
Updates apply(Graph& graph, const Optimiser& optimiser, std::span<const Gradient> gradients,
              std::span<const Tensor> weights, const LossScale& scale) {
  const std::vector<NodeId> statistics = find_statistics(graph.body(), gradients);
  Updates updates = make_settings(graph, optimiser);
  updates.loss_scale = scale.scale;
  const Tensor is_finite = scale.is_set() ? are_finite(gradients) : Tensor();
  {
    const Guard guard(graph, is_finite);
    for (const NodeId id : statistics) updates.nodes.push_back(scale.is_set() ? add_again(graph.body(), id) : id);
    add_weight_updates(optimiser, gradients, weights, unscale_factor(scale), updates);
  }
  // Last: all other updates need the scale by which the gradients were multiplied.
  if (scale.is_set())
    updates.nodes.push_back(
        ops::adjust_loss_scale(scale.scale, scale.finite_steps, is_finite, optimiser.scale_growth_steps));
  return updates;
}

void expect_gradients(std::span<const Gradient> gradients, std::span<const Tensor> weights) {
  if (gradients.size() != weights.size())
    throw Error(fmt::format("apply_gradients: {} gradients were given for {} weights; give one for each",
                            gradients.size(), weights.size()));
  if (std::none_of(gradients.begin(), gradients.end(), [](const Gradient& g) { return g.is_set(); }))
    throw Error("apply_gradients: there is nothing to apply: no gradient is set");
  for (size_t i = 0; i < weights.size(); ++i) {
    const Gradient& gradient = gradients[i];
    if ((gradient.is_set() && gradient.value.owner() != weights[i].owner()) ||
        (gradient.is_sparse() && gradient.rows.owner() != weights[i].owner()))
      throw Error(fmt::format("apply_gradients: the gradient of '{}' belongs to another graph", weights[i].name()));
  }
}

}  // namespace
}  // namespace autodiff

Updates minimize(Tensor loss, const Optimiser& optimiser, std::span<const Tensor> weights) {
  using namespace autodiff;
  check(optimiser);
  Graph& graph = loss.graph();
  const std::vector<Tensor> all = trained_weights(graph, weights);
  const LossScale scale = make_loss_scale(graph, optimiser);
  const std::vector<Gradient> grads = training_gradients(loss, all, scale.scale);
  const Scope scope(graph, "optimiser");
  return apply(graph, optimiser, grads, all, scale);
}

Updates apply_gradients(const Optimiser& optimiser, std::span<const Gradient> gradients,
                        std::span<const Tensor> weights) {
  using namespace autodiff;
  check(optimiser);
  if (optimiser.scales_loss)
    throw Error(
        "apply_gradients: the loss is scaled before its gradients are made; use minimize, or scales_loss = false");
  if (weights.empty()) throw Error("apply_gradients: there are no weights; give those that the gradients belong to");
  Graph& graph = weights[0].graph();
  const std::vector<Tensor> all = trained_weights(graph, weights);
  expect_gradients(gradients, all);
  const Scope scope(graph, "optimiser");
  return apply(graph, optimiser, gradients, all, {});
}

void Optimiser::apply(std::span<const Gradient> gradients, std::span<const Tensor> weights) const {
  using namespace autodiff;
  check(*this);
  if (scales_loss)
    throw Error("Optimiser::apply: scale the loss yourself, or use minimize in a session; set scales_loss = false");
  if (weights.empty()) throw Error("Optimiser::apply: there are no weights; give those that the gradients belong to");
  graph::Recorder& recorder = graph::require_recorder("Optimiser::apply");
  {
    Graph& graph = recorder.graph();
    const graph::Composing composing(graph);
    const std::vector<Tensor> all = trained_weights(graph, weights);
    expect_gradients(gradients, all);
    const Scope scope(graph, recorder.optimiser_scope(weights));
    // The rate may have been changed since the variable was made.
    const Tensor rate =
        graph.variable("learning_rate", DType::F32, {}, Init::constant(learning_rate), VariableRole::Optimiser);
    recorder.set_number(*rate.held(), static_cast<float>(learning_rate));
    static_cast<void>(autodiff::apply(graph, *this, gradients, all, {}));
  }
}

Updates layer_updates(Graph& graph) {
  Updates updates;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.body().nodes().size()); ++id)
    if (autodiff::is_statistics(graph.body(), id)) updates.nodes.push_back(id);
  return updates;
}

namespace {

void expect_variable(std::string_view function, const Tensor& variable) {
  if (variable.graph().body().value(variable.id()).kind != graph::ValueKind::Variable)
    throw Error(fmt::format("{}: '{}' is no variable and can't take a value", function, variable.name()));
}

}  // namespace

std::vector<NodeId> swap_averages(Graph& graph) {
  constexpr std::string_view kScope = "optimiser/", kState = "/average";
  std::vector<std::pair<Tensor, Tensor>> pairs;
  for (const graph::Variable& variable : graph.body().variables()) {
    const std::string_view name = variable.stored->name;
    if (variable.role() != VariableRole::Optimiser || !name.starts_with(kScope) || !name.ends_with(kState)) continue;
    const std::string_view weight = name.substr(kScope.size(), name.size() - kScope.size() - kState.size());
    pairs.emplace_back(graph.find(weight), Tensor(graph, variable.value));
  }
  if (pairs.empty())
    throw Error("swap_averages: no weight has an average; set Optimiser::average, and call minimize before",
                ErrorKind::Usage);
  std::vector<NodeId> nodes;
  for (const auto& [weight, average] : pairs) nodes.push_back(ops::swap_values(weight, average));
  return nodes;
}

NodeId assign(Tensor variable, Tensor value) {
  if (!variable.is_set() || !value.is_set()) throw Error("assign: the variable or the value is unset");
  expect_variable("assign", variable);
  if (value.rank() == 0 && variable.rank() != 0 && value.dtype() == variable.dtype())
    value = broadcast_to(value, variable.shape());
  return ops::assign(variable, value);
}

NodeId assign_rows(Tensor variable, Tensor rows, Tensor values, int axis) {
  if (!variable.is_set() || !rows.is_set() || !values.is_set())
    throw Error("assign_rows: the variable, the rows or the values are unset");
  expect_variable("assign_rows", variable);
  return ops::assign_rows(variable, rows, values, axis);
}

}  // namespace plimsoll
