#include "model/shared_weights.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "kernels/rank_slices.h"
#include "model/rewrite.h"
#include "ops/ops.h"

namespace plimsoll::model {
namespace {

using autodiff::SharedWeight;
using autodiff::SharedWeights;

class Sharing {
 public:
  Sharing(const TracedModel& traced, const autodiff::SharedTensors& shared) : shared_(shared) {
    for (const TracedPass* pass : {&traced.inference, traced.training ? &*traced.training : nullptr}) {
      if (pass == nullptr) continue;
      for (const graph::Variable& variable : pass->graph->body().variables())
        if (is_shared(*variable.stored))
          buffer_elements_ =
              std::max(buffer_elements_, kernels::slices_buffer(length_of(*variable.stored), shared_.ranks));
    }
  }

  bool is_shared(const StoredVariable& stored) const {
    return stored.role == VariableRole::Weight && stored.type.dtype == DType::F32 &&
           shared_.has(Sharding::Weights, stored.type.shape);
  }

  // Where the weight would be declared, so that variables keep their order.
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
    if (!weights.turn.is_set())
      weights.turn =
          node.graph.variable("received", DType::F32, {buffer_elements_}, Init::zeros(), VariableRole::Gradient);
    const std::string name = node.input_name(input);
    const Tensor slice = slices_.at(name);
    Tensor whole = ops::gather_slices(slice, weights.turn, shared_.ranks, stored.type.shape, name + "/whole");
    const auto known = std::ranges::find(weights.all, slice, &SharedWeight::slice);
    if (known == weights.all.end())
      weights.all.push_back({slice, stored.type.shape, {whole}});
    else
      known->gathered.push_back(whole);
    return whole;
  }

  const autodiff::SharedTensors shared_;
  int64_t buffer_elements_ = autodiff::kLeastShared;
  std::map<std::pair<const TracedPass*, std::string>, Tensor> gathered_;
  std::map<std::string, Tensor> slices_;
};

}  // namespace

ModelSpec share_weights(const ModelSpec& spec, autodiff::SharedTensors& shared) {
  auto traced = std::make_shared<const TracedModel>(trace(spec));
  shared.weights = std::make_shared<SharedWeights>();
  const auto sharing = std::make_shared<Sharing>(*traced, shared);
  Rewrite rewrite;
  rewrite.variable = [sharing](const ReplayedVariable& variable) {
    const bool is_shared = sharing->is_shared(variable.stored);
    if (is_shared) sharing->declare(variable);
    return is_shared ? std::optional(Tensor()) : std::nullopt;
  };
  rewrite.node = [sharing](ReplayedNode& node) -> std::optional<std::vector<Tensor>> {
    sharing->gather_inputs(node);
    return std::nullopt;
  };
  return replay_spec(spec, traced, rewrite);
}

}  // namespace plimsoll::model
