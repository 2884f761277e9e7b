#include "fit/own_model.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include "model/model_state.h"
#include "model/rewrite.h"

namespace plimsoll::fit {
namespace {

constexpr const char* kWeightsTensor = "sample_weight";

[[noreturn]] void refuse(const std::string& what) { throw Error(what, ErrorKind::Usage); }

// Which component feeds what.
struct Wiring {
  std::vector<const Component*> inputs;   // in the order of the model's
  std::vector<const Component*> targets;  // one for each output, as far as there are; for an objective, all others
  const Component* weights = nullptr;
};

const Component* find_component(const ElementSpec& batches, const std::string& name) {
  for (const Component& component : batches)
    if (component.name == name) return &component;
  return nullptr;
}

Wiring wire(const Model& model, const ElementSpec& batches, const std::string& weights, bool takes_all) {
  Wiring wiring;
  if (!weights.empty()) {
    wiring.weights = find_component(batches, weights);
    if (wiring.weights == nullptr)
      refuse(fmt::format("the dataset has no '{}' to weigh samples with; it has {}", weights, to_string(batches)));
  }
  std::vector<const Component*> left;
  for (const Component& component : batches)
    if (&component != wiring.weights) left.push_back(&component);
  const auto take = [&](const Component* component) {
    left.erase(std::find(left.begin(), left.end(), component));
    return component;
  };
  const auto find_left = [&](const std::string& name) -> const Component* {
    const auto found = std::find_if(left.begin(), left.end(), [&](const Component* c) { return c->name == name; });
    return found == left.end() ? nullptr : *found;
  };
  const bool by_name = std::all_of(model.inputs().begin(), model.inputs().end(),
                                   [&](const std::string& name) { return find_left(name) != nullptr; });
  // Inputs are found by name, or all by their place: a dataset that has some of the names lacks the others.
  const bool some_by_name = std::any_of(model.inputs().begin(), model.inputs().end(),
                                        [&](const std::string& name) { return find_left(name) != nullptr; });
  if (!by_name && (some_by_name || left.size() < model.inputs().size()))
    refuse(fmt::format("model '{}' has {} inputs ({}) but the dataset has {}", model.name(), model.inputs().size(),
                       fmt::join(model.inputs(), ", "), to_string(batches)));
  for (const std::string& name : model.inputs())
    wiring.inputs.push_back(take(by_name ? find_left(name) : left.front()));
  if (takes_all) {
    wiring.targets = left;
    return wiring;
  }
  std::vector<const Component*> named;
  for (const std::string& name : model.outputs()) named.push_back(find_left(name));
  for (const Component* component : named)
    if (component != nullptr) take(component);
  for (const Component* component : named) {
    if (component == nullptr && left.empty()) break;
    wiring.targets.push_back(component != nullptr ? component : take(left.front()));
  }
  return wiring;
}

NamedType type_of(const Component& component, std::string name) {
  Shape shape{Dim::batch()};
  for (int i = 1; i < component.shape.rank(); ++i) shape.push_back(component.shape[i]);
  return {std::move(name), {component.dtype, shape}};
}

// Bytes and halves become 32-bit numbers inside of the step; whole numbers stay such.
NamedTensors as_model_takes(const NamedTensors& fed) {
  NamedTensors inputs;
  for (const auto& [name, tensor] : fed) {
    const DType dtype = tensor.dtype();
    const bool stays = dtype == DType::F32 || dtype == DType::I32;
    inputs.add(name, stays ? tensor : cast(tensor, dtype == DType::I64 ? DType::I32 : DType::F32));
  }
  return inputs;
}

// One output with its loss and its target.
struct LossPart {
  std::string output, target;
  Loss loss;
  double weight = 1;
};

struct Goal {
  std::vector<LossPart> parts;
  CompileOptions options;
  train::SampleWeights weights;
  std::vector<std::string> outputs, targets;  // targets as their tensors are named
};

template <class Value>
const Value* find_by_name(const std::vector<std::pair<std::string, Value>>& values, const std::string& name) {
  for (const auto& [known, value] : values)
    if (known == name) return &value;
  return nullptr;
}

template <class Value>
void expect_outputs(const std::vector<std::pair<std::string, Value>>& values, const Model& model, const char* what) {
  for (const auto& [name, value] : values)
    if (std::find(model.outputs().begin(), model.outputs().end(), name) == model.outputs().end())
      refuse(fmt::format("there is a {} for '{}', but the outputs of model '{}' are {}", what, name, model.name(),
                         fmt::join(model.outputs(), ", ")));
}

std::vector<LossPart> list_parts(const Model& model, const CompileOptions& options,
                                 const std::vector<std::string>& targets) {
  expect_outputs(options.losses, model, "loss");
  expect_outputs(options.loss_weights, model, "loss weight");
  std::vector<LossPart> parts;
  for (size_t i = 0; i < model.outputs().size(); ++i) {
    const std::string& output = model.outputs()[i];
    const Loss* own = find_by_name(options.losses, output);
    const Loss* loss = own != nullptr ? own : options.loss ? &*options.loss : nullptr;
    if (loss == nullptr) continue;
    if (i >= targets.size())
      refuse(
          fmt::format("output '{}' of model '{}' has a loss but the dataset has no target for it; add a component of "
                      "that name",
                      output, model.name()));
    const double* weight = find_by_name(options.loss_weights, output);
    parts.push_back({output, targets[i], *loss, weight != nullptr ? *weight : 1});
  }
  if (parts.empty())
    refuse(fmt::format("model '{}' has no loss; give compile one: .loss = \"mse\", .losses by output, or .objective",
                       model.name()));
  return parts;
}

// The weight of the class of each sample.
Tensor weights_of_classes(Tensor output, Tensor target, const std::map<int64_t, double>& by_class) {
  const Shape rows{Dim::batch()};
  const bool is_number = element_count(target.shape()) == Dim::batch();
  const bool is_class = is_number && !is_float(target.dtype());
  const int64_t outputs = element_count(output.shape()).count();
  if (output.rank() > 2 || (!is_number && target.rank() != 2)) refuse("class weights need one class for each sample");
  const int64_t classes = std::max<int64_t>(outputs, 2);
  Tensor labels;
  if (!is_number)
    labels = argmax(cast(target, DType::F32));
  else
    labels = is_class ? cast(target, DType::I32) : cast(greater(target, target.graph().scalar(0.5F)), DType::I32);
  std::vector<float> table(static_cast<size_t>(classes), 1.0F);
  for (const auto& [label, weight] : by_class) {
    if (label < 0 || label >= classes)
      refuse(fmt::format("there is a weight for class {}, but the model has the classes 0 to {}", label, classes - 1));
    if (!(weight >= 0)) refuse(fmt::format("the weight {} of class {} makes no sense", weight, label));
    table[static_cast<size_t>(label)] = static_cast<float>(weight);
  }
  const Tensor weights = output.graph().constant(DType::F32, {classes, 1}, std::as_bytes(std::span(table)));
  return reshape(gather(weights, reshape(labels, rows)), rows);
}

Tensor weights_of(const Goal& goal, Tensor output, Tensor target, const NamedTensors& targets, bool training) {
  Tensor weights;
  if (training && !goal.weights.by_class.empty()) weights = weights_of_classes(output, target, goal.weights.by_class);
  if (targets.has(kWeightsTensor) && (training || goal.weights.weigh_validation)) {
    const Tensor own = cast(reshape(targets[kWeightsTensor], {Dim::batch()}), DType::F32);
    weights = weights.is_set() ? weights * own : own;
  }
  return weights;
}

void add_metric(Objective& objective, const Metric& metric, Tensor prediction, Tensor target) {
  const std::vector<Tensor> sums = metric.sums(prediction, target);
  if (sums.size() != metric.tensors)
    refuse(
        fmt::format("metric '{}' gives {} sums but says that it gives {}", metric.name, sums.size(), metric.tensors));
  for (const Tensor& sum : sums) {
    if (sum.dtype() != DType::F32 || element_count(sum.shape()).is_batch())
      refuse(fmt::format("metric '{}': a sum is {} but must be f32 without the batch", metric.name,
                         to_string(sum.type())));
    objective.sums.push_back(sum);
  }
}

bool applies(const Metric& metric, const std::string& output) {
  return metric.output.empty() || metric.output == output;
}

Objective make_objective(const Goal& goal, const NamedTensors& outputs, const NamedTensors& targets, bool training) {
  Objective objective;
  if (goal.options.objective) {
    objective.loss = goal.options.objective(outputs, targets);
    if (objective.loss.rank() != 0)
      refuse(fmt::format("the objective gives {} but must give one number, the mean over the batch",
                         to_string(objective.loss.type())));
  }
  for (const LossPart& part : goal.parts) {
    const Tensor output = outputs[part.output], target = targets[part.target];
    const Tensor loss = part.loss.mean(output, target, weights_of(goal, output, target, targets, training));
    const Tensor scaled = part.weight == 1 ? loss : loss * part.weight;
    objective.loss = objective.loss.is_set() ? objective.loss + scaled : scaled;
    if (goal.parts.size() > 1) objective.sums.push_back(loss);
  }
  for (const Metric& metric : goal.options.metrics)
    for (size_t i = 0; i < goal.outputs.size(); ++i) {
      if (!applies(metric, goal.outputs[i])) continue;
      const Tensor output = outputs[goal.outputs[i]];
      const auto part = std::find_if(goal.parts.begin(), goal.parts.end(),
                                     [&](const LossPart& p) { return p.output == goal.outputs[i]; });
      const Tensor prediction = part != goal.parts.end() ? part->loss.prediction(output) : output;
      add_metric(objective, metric, prediction, i < goal.targets.size() ? targets[goal.targets[i]] : Tensor());
    }
  return objective;
}

std::vector<MetricSums> list_metrics(const Goal& goal) {
  std::vector<MetricSums> metrics;
  if (goal.parts.size() > 1)
    for (const LossPart& part : goal.parts) metrics.push_back({part.output + "_loss", 1, {}});
  for (const Metric& metric : goal.options.metrics)
    for (const std::string& output : goal.outputs)
      if (applies(metric, output))
        metrics.push_back({goal.outputs.size() > 1 ? fmt::format("{}_{}", output, metric.name) : metric.name,
                           metric.tensors, metric.value});
  return metrics;
}

void expect_consistent(const Model& model, const CompileOptions& options, const train::SampleWeights& weights) {
  if (options.objective && (options.loss || !options.losses.empty() || !options.loss_weights.empty()))
    refuse("give compile an objective or losses, not both");
  const bool weighs = !weights.by_class.empty() || !weights.component.empty();
  if (weighs && options.objective)
    refuse("samples can't be weighed under an objective of one's own; weigh them in that function");
  if (!weights.by_class.empty() && model.outputs().size() > 1)
    refuse("class weights need a model with one output; give a sample weight instead");
  for (const Metric& metric : options.metrics)
    if (!metric.output.empty()) expect_outputs(std::vector{std::pair{metric.output, 0}}, model, "metric");
}

void add_inputs(ModelSpec& spec, const Wiring& wiring, const Model& model) {
  spec.model = model;
  const auto& stored = model.state()->stored;
  spec.can_train = stored == nullptr || stored->traced->training.has_value();
  spec.prepare = as_model_takes;
  for (size_t i = 0; i < wiring.inputs.size(); ++i) {
    spec.inputs.push_back(type_of(*wiring.inputs[i], model.inputs()[i]));
    spec.components.push_back(wiring.inputs[i]->name);
  }
}

}  // namespace

ModelSpec make_model_spec(const Model& model, const CompileOptions& options, const ElementSpec& batches,
                          const train::SampleWeights& weights) {
  expect_consistent(model, options, weights);
  const Wiring wiring = wire(model, batches, weights.component, static_cast<bool>(options.objective));
  ModelSpec spec;
  add_inputs(spec, wiring, model);
  std::vector<std::string> names;
  for (const Component* target : wiring.targets) {
    const auto is_input = [&](const std::string& name) { return name == target->name; };
    const bool is_taken = std::any_of(model.inputs().begin(), model.inputs().end(), is_input);
    names.push_back(is_taken ? target->name + "_target" : target->name);
    spec.targets.push_back(type_of(*target, names.back()));
    spec.components.push_back(target->name);
  }
  Goal goal{.parts = options.objective ? std::vector<LossPart>() : list_parts(model, options, names),
            .options = options,
            .weights = weights,
            .outputs = model.outputs(),
            .targets = names};
  if (wiring.weights != nullptr) {
    spec.targets.push_back(type_of(*wiring.weights, kWeightsTensor));
    spec.components.push_back(wiring.weights->name);
  }
  spec.metrics = list_metrics(goal);
  const auto shared = std::make_shared<const Goal>(std::move(goal));
  spec.objective = [shared](const NamedTensors& outputs, const NamedTensors& targets) {
    return make_objective(*shared, outputs, targets, false);
  };
  if (wiring.weights != nullptr || !weights.by_class.empty())
    spec.training_objective = [shared](const NamedTensors& outputs, const NamedTensors& targets) {
      return make_objective(*shared, outputs, targets, true);
    };
  return spec;
}

ModelSpec make_stored_spec(const Model& model, const ElementSpec& batches) {
  const auto& stored = model.state()->stored;
  if (stored == nullptr || !stored->traced->objective)
    refuse(fmt::format("model '{}' is not compiled; call compile with a loss first", model.name()));
  const Wiring wiring = wire(model, batches, {}, true);
  ModelSpec spec;
  add_inputs(spec, wiring, model);
  const ModelSpec replayed = model::replay_spec({}, stored->traced);
  std::vector<const Component*> left = wiring.targets;
  const auto find_left = [&](const std::string& name) {
    return std::find_if(left.begin(), left.end(), [&](const Component* c) { return c->name == name; });
  };
  // By name, or all by their place, as inputs are.
  const bool by_name = std::all_of(replayed.targets.begin(), replayed.targets.end(),
                                   [&](const NamedType& target) { return find_left(target.name) != left.end(); });
  if (left.size() < replayed.targets.size())
    refuse(fmt::format("model '{}' was saved with {} targets but the dataset has {}", model.name(),
                       replayed.targets.size(), to_string(batches)));
  for (const NamedType& target : replayed.targets) {
    const auto at = by_name ? find_left(target.name) : left.begin();
    spec.targets.push_back(type_of(**at, target.name));
    spec.components.push_back((*at)->name);
    left.erase(at);
  }
  spec.objective = [objective = replayed.objective, types = replayed.targets](const NamedTensors& outputs,
                                                                              const NamedTensors& targets) {
    NamedTensors cast_targets;
    for (const NamedType& target : types) {
      const Tensor given = targets[target.name];
      cast_targets.add(target.name, given.dtype() == target.type.dtype ? given : cast(given, target.type.dtype));
    }
    return objective(outputs, cast_targets);
  };
  spec.metrics = stored->metrics;
  spec.classes = stored->classes;
  spec.can_train = false;
  return spec;
}

ModelSpec make_inference_spec(const Model& model, const ElementSpec& batches) {
  ModelSpec spec;
  add_inputs(spec, wire(model, batches, {}, false), model);
  return spec;
}

}  // namespace plimsoll::fit
