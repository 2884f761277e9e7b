#include <plimsoll/model.h>

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include "graph/caller.h"
#include "graph/model_scope.h"
#include "graph/recorder.h"
#include "model/model_state.h"

namespace plimsoll {
namespace {

std::string names_of(const NamedTensors& tensors) {
  std::string names;
  for (const auto& [name, tensor] : tensors) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none" : names;
}

// Checks that the given tensors are those that the model names, all of them and no others.
void expect_names(const std::string& model, std::string_view what, const std::vector<std::string>& wanted,
                  const NamedTensors& given) {
  const bool all = std::all_of(wanted.begin(), wanted.end(), [&](const auto& name) { return given.has(name); });
  if (all && given.size() == wanted.size()) return;
  throw Error(
      fmt::format("model '{}': its {} are {} but it got {}", model, what, fmt::join(wanted, ", "), names_of(given)));
}

}  // namespace

NamedTensors::NamedTensors(std::initializer_list<Item> items) {
  for (const auto& [name, tensor] : items) add(name, tensor);
}

void NamedTensors::add(std::string name, Tensor tensor) {
  if (has(name)) throw Error(fmt::format("there are two tensors of the name '{}'", name));
  items_.emplace_back(std::move(name), tensor);
}

bool NamedTensors::has(std::string_view name) const {
  return std::any_of(items_.begin(), items_.end(), [&](const Item& item) { return item.first == name; });
}

Tensor NamedTensors::operator[](std::string_view name) const {
  for (const auto& [known, tensor] : items_)
    if (known == name) return tensor;
  throw Error(fmt::format("there is no tensor '{}'; there are: {}", name, names_of(*this)));
}

Tensor NamedTensors::only() const {
  if (items_.size() == 1) return items_.front().second;
  throw Error(fmt::format("one tensor is wanted but there are: {}; ask for one by its name", names_of(*this)));
}

namespace model {

Model::State& state_of(const Model& model) {
  if (model.state() == nullptr) throw Error("the model is empty; make it from layers or from a function first");
  return *model.state();
}

std::shared_ptr<graph::ModelWeight> find_weight(const Model& model, std::string_view name) {
  const Model::State& state = state_of(model);
  const std::string prefix = state.name + "/";
  std::shared_ptr<graph::ModelWeight> found = state.weights->find(name);
  if (found == nullptr && name.starts_with(prefix)) found = state.weights->find(name.substr(prefix.size()));
  if (found != nullptr) return found;
  std::vector<std::string> names;
  state.weights->for_each([&](const graph::ModelWeights::Member& member) { names.push_back(member.name); });
  if (names.empty())
    throw Error(fmt::format("model '{}' has no weights yet; they are made when it is first called", state.name));
  throw Error(fmt::format("model '{}' has no weight '{}'; it has {}", state.name, name, fmt::join(names, ", ")),
              ErrorKind::Usage);
}

}  // namespace model

namespace {

Model::Function of_layer(Layer layer) {
  if (!layer) return {};
  return [layer = std::move(layer)](const NamedTensors& inputs, bool training) {
    return NamedTensors{{"output", layer(inputs.only(), training)}};
  };
}

}  // namespace

Model::Model() = default;

Model::Model(std::string name, Layer layer)
    : Model(std::move(name), {"input"}, {"output"}, of_layer(std::move(layer))) {}

Model::Model(std::string name, std::vector<std::string> inputs, std::vector<std::string> outputs, Function function)
    : state_(
          std::make_shared<State>(State{std::move(name), std::move(inputs), std::move(outputs), std::move(function)})) {
  if (state_->inputs.empty() || state_->outputs.empty())
    throw Error(fmt::format("model '{}' needs at least one input and one output", state_->name));
  if (!state_->function) throw Error(fmt::format("model '{}' is made of an empty function", state_->name));
}

const std::string& Model::name() const { return model::state_of(*this).name; }
const std::vector<std::string>& Model::inputs() const { return model::state_of(*this).inputs; }
const std::vector<std::string>& Model::outputs() const { return model::state_of(*this).outputs; }

Tensor Model::operator()(Tensor x, bool training, std::source_location where) const {
  if (inputs().size() != 1)
    throw Error(fmt::format("model '{}' has several inputs; name them: {}", name(), fmt::join(inputs(), ", ")));
  return (*this)(NamedTensors{{inputs().front(), x}}, training, where).only();
}

NamedTensors Model::operator()(const NamedTensors& inputs, bool training, std::source_location where) const {
  const graph::Caller caller(where);
  expect_names(name(), "inputs", state_->inputs, inputs);
  const std::shared_ptr<VariableStore> store = inputs.begin()->second.graph().store();
  graph::ModelScope scope(*store, name(), state_->weights);
  NamedTensors outputs = state_->function(inputs, training);
  expect_names(name(), "outputs", state_->outputs, outputs);
  scope.set_built();
  if (state_->called_with->empty())
    for (const std::string& input : state_->inputs) {
      TensorType type = inputs[input].type();
      if (type.shape.rank() > 0) type.shape[0] = Dim::batch();
      state_->called_with->push_back({input, type});
    }
  return outputs;
}

std::vector<Tensor> Model::weights() const {
  const std::shared_ptr<graph::ModelWeights>& own = model::state_of(*this).weights;
  graph::Recorder& recorder = graph::require_recorder("Model::weights");
  graph::ModelScope scope(*recorder.graph().store(), name(), own);
  std::vector<Tensor> weights;
  own->for_each([&](const graph::ModelWeights::Member& member) {
    const StoredVariable& stored = scope.variable_of(member);
    if (stored.role == VariableRole::Weight) weights.push_back(recorder.tensor_of(stored));
  });
  if (own->is_empty())
    throw Error(fmt::format("model '{}' has no weights yet; they are made when it is first called", name()));
  scope.set_built();
  return weights;
}

Tensor Model::weight(std::string_view name) const {
  const std::shared_ptr<graph::ModelWeight> wanted = model::find_weight(*this, name);
  graph::Recorder& recorder = graph::require_recorder("Model::weight");
  graph::ModelScope scope(*recorder.graph().store(), this->name(), state_->weights);
  Tensor found;
  state_->weights->for_each([&](const graph::ModelWeights::Member& member) {
    const StoredVariable& stored = scope.variable_of(member);
    if (member.weight == wanted) found = recorder.tensor_of(stored);
  });
  scope.set_built();
  return found;
}

Model sequential(std::vector<Layer> layers, std::string name) {
  for (size_t i = 0; i < layers.size(); ++i)
    if (!layers[i])
      throw Error(fmt::format("model '{}': layer {} is empty; make it by a function of layers::", name, i));
  return {std::move(name), [layers = std::move(layers)](Tensor x, bool training) {
            for (const Layer& layer : layers) x = layer(x, training);
            return x;
          }};
}

}  // namespace plimsoll
