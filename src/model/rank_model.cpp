#include "model/rank_model.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "kernels/rank_slices.h"
#include "kernels/sum_over_ranks.h"
#include "model/model_state.h"
#include "model/rewrite.h"
#include "ops/ops.h"

namespace plimsoll::model {
namespace {

using autodiff::SharedWeight;
using autodiff::SharedWeights;

class Sharing {
 public:
  explicit Sharing(const autodiff::SharedTensors& shared) : shared_(shared) {}

  bool is_shared(const StoredVariable& stored) const {
    return stored.role == VariableRole::Weight && stored.type.dtype == DType::F32 &&
           shared_.has(Sharding::Weights, stored.type.shape);
  }

  // Declares the slice where the weight would be declared, so that variables keep their order.
  void declare(const ReplayedVariable& variable) {
    if (slices_.contains(variable.name)) return;
    const StoredVariable& stored = variable.stored;
    slices_.emplace(variable.name,
                    variable.graph.variable(variable.name, DType::F32, {length_of(stored)}, stored.init, stored.role));
  }

  // Gathers what the node reads of shared weights, once for each pass.
  void gather_inputs(ReplayedNode& node) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].is_set()) continue;
      Tensor& value = gathered_[{&node.pass, node.input_name(i)}];
      if (!value.is_set()) value = gather(node, i);
      node.inputs[i] = value;
    }
  }

 private:
  int64_t length_of(const StoredVariable& stored) const {
    return kernels::slice_length(element_count(stored.type.shape).fixed(), shared_.ranks);
  }

  Tensor gather(ReplayedNode& node, size_t input) {
    const graph::Body& traced = node.pass.graph->body();
    const StoredVariable& stored = *traced.variables()[static_cast<size_t>(node.traced_input(input).extra)].stored;
    SharedWeights& weights = *shared_.weights;
    const std::string name = node.input_name(input);
    const Tensor slice = slices_.at(name);
    const Tensor turn = shared_.buffer->in(node.graph);
    Tensor whole = ops::gather_slices(slice, turn, shared_.ranks, stored.type.shape, name + "/whole");
    const auto known = std::ranges::find(weights.all, slice, &SharedWeight::slice);
    if (known == weights.all.end())
      weights.all.push_back({slice, stored.type.shape, {whole}});
    else
      known->gathered.push_back(whole);
    return whole;
  }

  const autodiff::SharedTensors shared_;
  std::map<std::pair<const TracedPass*, std::string>, Tensor> gathered_;
  std::map<std::string, Tensor> slices_;
};

// All exchanges of the step share one buffer; those of gradients are the largest.
int64_t buffer_elements(const TracedModel& traced, const autodiff::SharedTensors& shared) {
  int64_t largest = autodiff::kLeastShared;
  for (const TracedPass* pass : {&traced.inference, traced.training ? &*traced.training : nullptr}) {
    if (pass == nullptr) continue;
    for (const graph::Variable& variable : pass->graph->body().variables()) {
      const Shape& shape = variable.stored->type.shape;
      const int64_t elements = element_count(shape).fixed();
      largest =
          std::max(largest, shared.has(Sharding::Gradients, shape)
                                ? kernels::slices_buffer(kernels::slice_length(elements, shared.ranks), shared.ranks)
                                : std::min(elements, kernels::kMostReceived));
    }
  }
  return largest;
}

}  // namespace

ModelSpec make_rank_model(const ModelSpec& spec, autodiff::SharedTensors& shared, SynchronisedNorms norms) {
  auto traced = std::make_shared<const TracedModel>(trace(spec));
  const int64_t norm_elements = norm_buffer(*traced->training, norms);
  shared.synchronises_norms = norm_elements > 0;
  const bool shares_weights = shared.sharding == Sharding::Weights;
  if (shared.ranks == 1 || (!shares_weights && !shared.synchronises_norms)) return spec;
  shared.buffer = std::make_shared<autodiff::ExchangeBuffer>(std::max(norm_elements, buffer_elements(*traced, shared)));
  if (shares_weights) shared.weights = std::make_shared<SharedWeights>();
  const auto sharing = std::make_shared<Sharing>(shared);
  Rewrite rewrite;
  rewrite.variable = [sharing](const ReplayedVariable& variable) {
    const bool is_shared = sharing->is_shared(variable.stored);
    if (is_shared) sharing->declare(variable);
    return is_shared ? std::optional(Tensor()) : std::nullopt;
  };
  rewrite.node = [sharing, norms, buffer = shared.buffer](ReplayedNode& node) -> std::optional<std::vector<Tensor>> {
    sharing->gather_inputs(node);
    if (!is_synchronised(node.op(), node.attrs, norms)) return std::nullopt;
    return synchronise(node, buffer->in(node.graph));
  };
  ModelSpec replayed = replay_spec(spec, traced, rewrite);
  replayed.model.state()->weights = spec.model.state()->weights;  // the same model
  return replayed;
}

}  // namespace plimsoll::model
