#include <plimsoll/model.h>

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include "graph/caller.h"
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

bool Model::State::lives_in(const std::shared_ptr<VariableStore>& store, const std::string& full_name) {
  std::erase_if(homes, [](const model::Home& home) { return home.store.expired(); });
  return std::any_of(homes.begin(), homes.end(), [&](const model::Home& home) {
    return home.store.lock() == store && home.full_name == full_name;
  });
}

Model::Model() = default;

Model::Model(std::string name, Layer layer)
    : Model(std::move(name), {"input"}, {"output"},
            [layer = std::move(layer)](const NamedTensors& inputs, bool training) {
              return NamedTensors{{"output", layer(inputs.only(), training)}};
            }) {}

Model::Model(std::string name, std::vector<std::string> inputs, std::vector<std::string> outputs, Function function)
    : state_(
          std::make_shared<State>(State{std::move(name), std::move(inputs), std::move(outputs), std::move(function)})) {
  if (state_->inputs.empty() || state_->outputs.empty())
    throw Error(fmt::format("model '{}' needs at least one input and one output", state_->name));
}

const std::string& Model::name() const { return state_->name; }
const std::vector<std::string>& Model::inputs() const { return state_->inputs; }
const std::vector<std::string>& Model::outputs() const { return state_->outputs; }

Tensor Model::operator()(Tensor x, bool training, std::source_location where) const {
  if (state_ != nullptr && state_->inputs.size() != 1)
    throw Error(fmt::format("model '{}' has several inputs; name them: {}", name(), fmt::join(inputs(), ", ")));
  return (*this)(NamedTensors{{state_ == nullptr ? "input" : inputs().front(), x}}, training, where).only();
}

NamedTensors Model::operator()(const NamedTensors& inputs, bool training, std::source_location where) const {
  if (state_ == nullptr) throw Error("the model is empty; make it from layers or from a function first");
  const graph::Caller caller(where);
  expect_names(name(), "inputs", state_->inputs, inputs);
  const std::shared_ptr<VariableStore> store = inputs.begin()->second.graph().store();
  const std::string full_name = store->full_name(name());
  const bool is_known = state_->lives_in(store, full_name);
  const Scope scope(*store, name(), is_known ? Scope::Mode::Reuse : Scope::Mode::Inherit);
  NamedTensors outputs = state_->function(inputs, training);
  expect_names(name(), "outputs", state_->outputs, outputs);
  if (!is_known) state_->homes.push_back({store, full_name});
  return outputs;
}

std::vector<Tensor> Model::weights() const {
  if (state_ == nullptr) throw Error("the model is empty; make it from layers or from a function first");
  graph::Recorder& recorder = graph::require_recorder("Model::weights");
  std::vector<Tensor> weights = recorder.variables(name() + "/", VariableRole::Weight);
  if (weights.empty())
    throw Error(fmt::format("model '{}' has no weights here; they are made when it is first called", name()));
  return weights;
}

Model sequential(std::vector<Layer> layers, std::string name) {
  return {std::move(name), [layers = std::move(layers)](Tensor x, bool training) {
            for (const Layer& layer : layers) x = layer(x, training);
            return x;
          }};
}

}  // namespace plimsoll
