#include <fmt/format.h>

#include "autodiff/updates.h"
#include "graph/body.h"
#include "ops/ops.h"

namespace plimsoll {
namespace autodiff {
namespace {

// Where the loss is scaled, statistics that are not finite are left out. The guard can't be that of the gradients,
// which is known only when they are applied.
NodeId add_statistics(Graph& graph, NodeId id, bool may_overflow) {
  if (!may_overflow) return id;
  const std::span<const ValueId> inputs = graph.body().inputs(graph.body().node(id));
  std::vector<Gradient> numbers;
  for (const ValueId input : inputs)
    if (graph.body().value(input).kind == graph::ValueKind::Computed) numbers.push_back({Tensor(graph, input), {}});
  const Guard guard(graph, are_finite(numbers));
  return add_again(graph.body(), id);
}

// One sum for each weight that has a gradient.
std::vector<Gradient> add_sums(std::span<const Gradient> gradients, std::span<const Tensor> weights,
                               std::vector<NodeId>& nodes) {
  std::vector<Gradient> sums(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!gradients[i].is_set()) continue;
    const Tensor weight = weights[i];
    sums[i].value = weight.graph().variable(fmt::format("{}/accumulated", weight.name()), DType::F32, weight.shape(),
                                            Init::zeros(), VariableRole::Optimiser);
    nodes.push_back(ops::add_gradient(sums[i].value, gradients[i], weight));
  }
  return sums;
}

void add_apply(const Optimiser& optimiser, std::span<const Gradient> sums, std::span<const Tensor> weights,
               const LossScale& scale, Accumulation& to) {
  Graph& graph = to.samples.graph();
  std::vector<NodeId>& nodes = to.apply.nodes;
  const Tensor has_samples = minimum(to.samples, graph.scalar(1));
  const Tensor is_finite = scale.is_set() ? are_finite(sums) : Tensor();
  Tensor factor = div(graph.scalar(1), to.samples);
  if (scale.is_set()) factor = div(factor, scale.scale);
  {
    const Guard guard(graph, scale.is_set() ? mul(has_samples, is_finite) : has_samples);
    add_weight_updates(optimiser, sums, weights, factor, to.apply);
  }
  if (scale.is_set()) {
    const Guard guard(graph, has_samples);
    nodes.push_back(ops::adjust_loss_scale(scale.scale, scale.finite_steps, is_finite, optimiser.scale_growth_steps));
  }
  for (const Gradient& sum : sums)
    if (sum.is_set()) nodes.push_back(ops::clear(sum.value));
  nodes.push_back(ops::clear(to.samples));
  nodes.push_back(ops::clear(to.batches));
}

}  // namespace
}  // namespace autodiff

Accumulation accumulate(Tensor loss, const Optimiser& optimiser, std::span<const Tensor> weights) {
  using namespace autodiff;
  check(optimiser);
  Graph& graph = loss.graph();
  const std::vector<Tensor> all = trained_weights(graph, weights);
  const LossScale scale = make_loss_scale(graph, optimiser);
  const std::vector<Gradient> grads = training_gradients(loss, all, scale.scale);
  const std::vector<NodeId> statistics = find_statistics(graph.body(), grads);

  const Scope scope(graph, "optimiser");
  Accumulation result;
  result.apply = make_settings(graph, optimiser);
  result.apply.loss_scale = scale.scale;
  result.add = result.apply;
  result.samples = graph.variable("accumulated_samples", DType::F32, {}, Init::zeros(), VariableRole::Optimiser);
  result.batches = graph.variable("accumulated_batches", DType::I64, {}, Init::zeros(), VariableRole::Optimiser);
  for (const NodeId id : statistics) result.add.nodes.push_back(add_statistics(graph, id, scale.is_set()));
  result.add.nodes.push_back(ops::count_samples(result.samples));
  result.add.nodes.push_back(ops::count_step(result.batches));
  add_apply(optimiser, add_sums(grads, all, result.add.nodes), all, scale, result);
  return result;
}

}  // namespace plimsoll
