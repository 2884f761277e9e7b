#include "store/folded_norms.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "weights/weights_parts.h"

namespace plimsoll::store {

// Looks for layers that a norm can be folded into.
class NormFinder {
 public:
  explicit NormFinder(const model::TracedPass& pass)
      : body_(pass.graph->body()), users_(body_.values().size()), producers_(body_.values().size(), -1) {
    for (NodeId id = pass.begin.nodes; id < pass.end.nodes; ++id) {
      for (const ValueId input : body_.inputs(body_.node(id))) users_[static_cast<size_t>(input)].push_back(id);
      if (body_.node(id).outputs > 0) producers_[static_cast<size_t>(body_.node(id).first_output)] = id;
    }
    // The caller reads outputs too.
    for (const auto& [name, id] : pass.outputs) users_[static_cast<size_t>(id)].push_back(-1);
  }

  // The norm of that node as a layer, when it can be folded.
  bool find(NodeId id, FoldedNorms::Layer& layer) const {
    const graph::Node& norm = body_.node(id);
    if (norm.op->name != "batch_norm_inference" || body_.attrs(norm).has("activation")) return false;
    const auto of_norm = body_.inputs(norm);
    if (!is_only_reader(of_norm[0])) return false;
    layer.norm = id;
    layer.product = producers_[static_cast<size_t>(of_norm[0])];
    if (layer.product < 0) return false;
    const graph::Node& product = body_.node(layer.product);
    const auto in = body_.inputs(product);
    if (!is_plain(product) || !set_order(product, layer)) return false;
    layer.has_bias = in.size() == 3;
    std::vector<ValueId> variables{in.begin() + 1, in.end()};
    variables.insert(variables.end(), of_norm.begin() + 1, of_norm.end());
    if (!std::all_of(variables.begin(), variables.end(), [&](ValueId each) { return is_own_variable(each); }))
      return false;
    layer.kernel = body_.name(body_.value(in[1]));
    layer.gamma = body_.name(body_.value(of_norm[1]));
    layer.beta = body_.name(body_.value(of_norm[2]));
    layer.mean = body_.name(body_.value(of_norm[3]));
    layer.variance = body_.name(body_.value(of_norm[4]));
    layer.bias = layer.has_bias ? std::string(body_.name(body_.value(in[2]))) : layer.beta;
    layer.epsilon = body_.attrs(norm).f("epsilon", 1e-3);
    return true;
  }

 private:
  bool is_only_reader(ValueId value) const { return users_[static_cast<size_t>(value)].size() == 1; }
  bool is_own_variable(ValueId id) const {
    const graph::Value& value = body_.value(id);
    return value.kind == graph::ValueKind::Variable && value.type.dtype == DType::F32 && is_only_reader(id);
  }

  bool is_plain(const graph::Node& product) const {
    const graph::Attrs& attrs = body_.attrs(product);
    return !attrs.has("activation") && attrs.i("residual") == 0 && attrs.i("transpose_a") == 0;
  }

  // Sets how the elements of the kernel map to output channels.
  bool set_order(const graph::Node& product, FoldedNorms::Layer& layer) const {
    const Shape& kernel = body_.value(body_.inputs(product)[1]).type.shape;
    const bool is_dense =
        product.op->name == "matmul" && kernel.rank() == 2 && body_.value(product.first_output).type.shape.rank() == 2;
    if (!is_dense && product.op->name != "conv2d") return false;
    const bool is_last = is_dense && body_.attrs(product).i("transpose_b") == 0;
    layer.channels = kernel[is_last ? 1 : 0].fixed();
    layer.run = is_last ? 1 : element_count(kernel).fixed() / layer.channels;
    return true;
  }

  const graph::Body& body_;
  std::vector<std::vector<NodeId>> users_;  // by value
  std::vector<NodeId> producers_;           // by value: the node whose first output it is; -1: none
};

namespace {

// Of each channel: what a norm multiplies by, and what it adds.
struct ChannelFactors {
  std::vector<float> factors, terms;
};

std::string relative_name(const std::string& name, const std::string& scope) {
  return name.starts_with(scope) ? name.substr(scope.size()) : name;
}

}  // namespace

FoldedNorms::FoldedNorms(const model::TracedPass& pass) {
  const NormFinder finder(pass);
  for (NodeId id = pass.begin.nodes; id < pass.end.nodes; ++id) {
    Layer layer;
    if (!finder.find(id, layer)) continue;
    const size_t number = layers_.size();
    by_variable_[layer.kernel] = by_variable_[layer.bias] = number;
    by_node_[layer.product] = by_node_[layer.norm] = number;
    layers_.push_back(std::move(layer));
  }
}

model::Rewrite FoldedNorms::rewrite() const {
  const auto folds = std::make_shared<const FoldedNorms>(*this);
  auto gone = std::make_shared<std::map<std::string, bool, std::less<>>>();
  for (const Layer& layer : layers_)
    for (const std::string& name : {layer.gamma, layer.beta, layer.mean, layer.variance}) (*gone)[name] = true;
  model::Rewrite rewrite;
  rewrite.variable = [gone](const model::ReplayedVariable& variable) -> std::optional<Tensor> {
    return gone->contains(variable.stored.name) ? std::optional(Tensor()) : std::nullopt;
  };
  rewrite.node = [folds](model::ReplayedNode& node) -> std::optional<std::vector<Tensor>> {
    const auto found = folds->by_node_.find(node.id);
    if (found == folds->by_node_.end()) return std::nullopt;
    const Layer& layer = folds->layers_[found->second];
    if (node.id == layer.norm) return std::vector<Tensor>{node.inputs[0]};
    if (!layer.has_bias) {
      const graph::Body& body = node.pass.graph->body();
      const StoredVariable& beta = *body.variable_of(body.find(layer.beta)).stored;
      node.inputs.push_back(node.graph.variable(relative_name(layer.beta, node.pass.scope), beta.type.dtype,
                                                beta.type.shape, beta.init, beta.role));
    }
    return std::nullopt;
  };
  return rewrite;
}

std::function<void(const weights::StoredTensor&, int64_t, std::span<float>)> FoldedNorms::change(
    const weights::WeightsReader& file) const {
  std::map<std::string, weights::StoredTensor, std::less<>> stored;
  file.for_each([&](const weights::StoredTensor& tensor) {
    for (const Layer& layer : layers_)
      for (const std::string* name : {&layer.gamma, &layer.beta, &layer.mean, &layer.variance})
        if (tensor.name == *name) stored.insert_or_assign(tensor.name, tensor);
  });
  // The step has no such variables, so load_weights does not check them.
  for (const Layer& layer : layers_)
    for (const std::string* name : {&layer.gamma, &layer.beta, &layer.mean, &layer.variance}) {
      const auto found = stored.find(*name);
      if (found == stored.end() || found->second.bytes != layer.channels * size_of(found->second.dtype))
        throw Error(fmt::format("{}: has no '{}' of {} numbers, which the model needs; save the model again",
                                file.path(), *name, layer.channels),
                    ErrorKind::BadData);
    }
  // A layer at a time is held: its kernel comes in pieces.
  const auto made = std::make_shared<ChannelFactors>();
  const auto made_for = std::make_shared<size_t>(layers_.size());
  const auto factors_of = [this, &file, stored = std::move(stored), made, made_for](size_t number) {
    if (std::exchange(*made_for, number) == number) return;
    const Layer& layer = layers_[number];
    const auto count = static_cast<size_t>(layer.channels);
    const auto read = [&](const std::string& name) {
      std::vector<float> numbers(count);
      weights::read_elements(file, stored.at(name), 0, layer.channels, DType::F32, numbers.data());
      return numbers;
    };
    made->factors = read(layer.gamma);
    made->terms = read(layer.beta);
    const std::vector<float> mean = read(layer.mean), variance = read(layer.variance);
    for (size_t c = 0; c < count; ++c) {
      const double factor = made->factors[c] / std::sqrt(variance[c] + layer.epsilon);
      made->factors[c] = static_cast<float>(factor);
      made->terms[c] = static_cast<float>(made->terms[c] - mean[c] * factor);
    }
  };
  return [this, factors_of, made](const weights::StoredTensor& tensor, int64_t first, std::span<float> numbers) {
    const auto found = by_variable_.find(tensor.name);
    if (found == by_variable_.end()) return;
    factors_of(found->second);
    const Layer& layer = layers_[found->second];
    const bool is_kernel = tensor.name == layer.kernel;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const int64_t at = first + static_cast<int64_t>(i);
      const auto channel = static_cast<size_t>(is_kernel ? at / layer.run % layer.channels : at);
      const float factor = made->factors[channel];
      if (is_kernel)
        numbers[i] *= factor;
      else
        numbers[i] = layer.has_bias ? numbers[i] * factor + made->terms[channel] : made->terms[channel];
    }
  };
}

}  // namespace plimsoll::store
