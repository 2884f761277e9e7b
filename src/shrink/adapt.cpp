#include "shrink/adapt.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include "model/model_state.h"
#include "shrink/layer_paths.h"
#include "shrink/products.h"

namespace plimsoll::shrink {
namespace {

[[noreturn]] void refuse_adapters(const std::string& why) { throw Error("adapters: " + why, ErrorKind::Usage); }

void check(const AdaptOptions& options) {
  if (options.rank < 1) refuse_adapters(fmt::format("the rank must be at least 1 but is {}", options.rank));
  if (!std::isfinite(options.alpha) || options.alpha <= 0)
    refuse_adapters(fmt::format("alpha must be positive but is {}", options.alpha));
  if (!(options.dropout >= 0 && options.dropout < 1))
    refuse_adapters(fmt::format("the dropout rate must be from 0 up to 1 but is {}", options.dropout));
}

// The call of a model as a pass of its own: a graph of placeholders of the same types.
model::TracedPass trace_call(const Model& model, const NamedTensors& inputs, bool training) {
  const auto graph = std::make_shared<Graph>();
  NamedTensors fed;
  for (const auto& [name, tensor] : inputs) fed.add(name, graph->placeholder(name, tensor.dtype(), tensor.shape()));
  model::TracedPass pass{graph, model.name() + "/", {}, {}, model::end_of(graph->body()), {}};
  const NamedTensors outputs = model(fed, training);
  for (const auto& [name, tensor] : fed) pass.inputs.emplace_back(name, tensor.id());
  for (const auto& [name, tensor] : outputs) pass.outputs.emplace_back(name, tensor.id());
  pass.end = model::end_of(graph->body());
  graph->finalize();
  return pass;
}

// The variable of the innermost scope, which another layer of the same graph may have made.
Tensor find_or_make(Graph& graph, const std::string& name, const Shape& shape, const Init& init) {
  const std::string full = graph.store()->full_name(name);
  if (graph.body().recorder() == nullptr && graph.has_value(full)) return graph.find(full);
  return graph.variable(name, DType::F32, shape, init);
}

// Adds adapters during one replay of a model.
class AdapterRewrite {
 public:
  AdapterRewrite(const std::string& model, const AdaptOptions& options, bool training)
      : model_(model),
        options_(options),
        targets_(options.targets.empty() ? default_targets(model) : options.targets),
        is_used_(targets_.size(), false),
        training_(training) {}

  std::optional<std::vector<Tensor>> at(const model::ReplayedNode& node) {
    const graph::Body& body = node.pass.graph->body();
    const std::optional<ValueId> weight = weight_of(body, node.node());
    if (!weight) return std::nullopt;
    const LayerPath path = path_of(model_, layer_of(body.name(body.value(*weight)), node.pass.scope));
    if (std::find(layers_.begin(), layers_.end(), path.own) == layers_.end()) layers_.push_back(path.own);
    bool is_wanted = false;
    for (size_t i = 0; i < targets_.size(); ++i) {
      if (!is_target(path, targets_[i])) continue;
      is_used_[i] = is_wanted = true;
    }
    if (!is_wanted) return std::nullopt;
    return std::vector<Tensor>{add_adapter(node, path, body.value(*weight).type.shape)};
  }

  // Called after the replay: every target must have matched a layer.
  void expect_used() const {
    const auto known = [&] {
      constexpr size_t kShown = 8;
      const std::vector<std::string> some(layers_.begin(),
                                          layers_.begin() + static_cast<int64_t>(std::min(kShown, layers_.size())));
      const std::string more = layers_.size() > kShown ? fmt::format(" and {} more", layers_.size() - kShown) : "";
      return layers_.empty() ? "it has none" : fmt::format("these are {}{}", fmt::join(some, ", "), more);
    };
    if (targets_.empty())
      refuse_adapters(
          fmt::format("nothing is known of '{}' that would tell which layers to adapt; name targets among "
                      "its products with a weight: {}",
                      model_, known()));
    for (size_t i = 0; i < targets_.size(); ++i)
      if (!is_used_[i])
        refuse_adapters(fmt::format("no layer of '{}' matches '{}'; name one of its products with a weight: {}", model_,
                                    targets_[i], known()));
  }

 private:
  Tensor add_adapter(const model::ReplayedNode& node, const LayerPath& path, const Shape& weight) const {
    const int64_t inputs = weight[0].fixed(), outputs = weight[1].fixed();
    if (options_.rank > std::min(inputs, outputs))
      refuse_adapters(fmt::format("rank {} is more than layer '{}' {} has; give at most {}", options_.rank, path.own,
                                  to_string(weight), std::min(inputs, outputs)));
    const double limit = 1 / std::sqrt(static_cast<double>(inputs));
    const Tensor a = find_or_make(node.graph, fmt::format("{}/{}", path.shared, kLoraA), {inputs, options_.rank},
                                  Init::uniform(-limit, limit));
    const Tensor b =
        find_or_make(node.graph, fmt::format("{}/{}", path.own, kLoraB), {options_.rank, outputs}, Init::zeros());
    const Tensor y = node.replay()[0];
    Tensor x = node.inputs[0];
    if (training_ && options_.dropout > 0) x = dropout(x, options_.dropout, path.own + "/lora_dropout");
    const Tensor low = scale(matmul(x, a), options_.alpha / static_cast<double>(options_.rank));
    return add(y, matmul(low, b));
  }

  const std::string model_;
  const AdaptOptions& options_;
  const std::vector<std::string> targets_;
  std::vector<bool> is_used_;
  const bool training_;
  std::vector<std::string> layers_;  // that could be adapted
};

}  // namespace

bool is_adapter(std::string_view variable) {
  const std::string_view last = variable.substr(variable.find_last_of('/') + 1);
  return last == kLoraA || last == kLoraB;
}

Model adapt(const Model& model, const AdaptOptions& options) {
  check(options);
  if (model.state()->adapters != nullptr) refuse_adapters(fmt::format("model '{}' has some already", model.name()));
  const auto weights = std::make_shared<graph::ModelWeights>();
  Model adapted(model.name(), model.inputs(), model.outputs(),
                [model, options, weights](const NamedTensors& inputs, bool training) {
                  const model::TracedPass pass = trace_call(model, inputs, training);
                  // The adapters are beside the weights of that model, not beside a copy of them.
                  for (const graph::Variable& variable : pass.graph->body().variables())
                    if (const auto& weight = variable.stored->weight; weight != nullptr)
                      weights->put(std::string_view(variable.stored->name).substr(pass.scope.size()), weight);
                  AdapterRewrite adapters(model.name(), options, training);
                  model::Rewrite rewrite;
                  rewrite.node = [&](model::ReplayedNode& node) { return adapters.at(node); };
                  NamedTensors outputs = model::replay(pass, inputs, rewrite);
                  adapters.expect_used();
                  return outputs;
                });
  adapted.state()->weights = weights;
  adapted.state()->adapters = std::make_shared<const AdaptOptions>(options);
  adapted.state()->starts_fresh = is_adapter;
  return adapted;
}

ModelSpec adapt(const ModelSpec& spec, const AdaptOptions& options) {
  ModelSpec adapted = spec;
  adapted.model = adapt(spec.model, options);
  return adapted;
}

}  // namespace plimsoll::shrink

namespace plimsoll {

Model Model::adapt(const AdaptOptions& options) const {
  if (state_ == nullptr) throw Error("the model is empty; make it from layers or from a function first");
  return shrink::adapt(*this, options);
}

Freeze adapter_freeze(DType type) { return {.all_but = {"*/lora_A", "*/lora_B"}, .type = type}; }

}  // namespace plimsoll
