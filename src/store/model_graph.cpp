#include "store/model_graph.h"

#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "graph/text.h"
#include "ops/ops.h"

namespace plimsoll::store {
namespace {

// A graph of a million lines takes some hundred MiB; models have some hundreds.
constexpr graph::TextLimits kLimits{.lines = 1'000'000, .elements = int64_t{1} << 40};
constexpr int64_t kLargestSetting = int64_t{1} << 32;  // of a whole number

[[noreturn]] void refuse_graph(const std::string& why) { throw Error(why, ErrorKind::BadData); }

const graph::Op* find_storable(std::string_view name) {
  const graph::Op* op = ops::find_op(name);
  if (op != nullptr && !op->storable)
    refuse_graph(
        fmt::format("operator '{}' is no part of a model: gradients and updates are made when it is trained", name));
  return op;
}

void expect_settings(const graph::Body& graph, const graph::Node& node) {
  for (const auto& [key, attr] : graph.attrs(node).items()) {
    if (key == "guarded") refuse_graph(fmt::format("'{}' has a guard, which training alone sets", graph.name(node)));
    const auto* number = std::get_if<int64_t>(&attr);
    if (const auto* shape = std::get_if<Shape>(&attr))
      for (const Dim dim : *shape)
        if (dim.count() > kLargestSetting)
          refuse_graph(
              fmt::format("'{}' has the setting {}={}, which is too large", graph.name(node), key, to_string(*shape)));
    if (number != nullptr && key != "key" && (*number > kLargestSetting || *number < -kLargestSetting))
      refuse_graph(fmt::format("'{}' has the setting {}={}, which is too large", graph.name(node), key, *number));
  }
}

void expect_nodes(const graph::Body& graph) {
  for (const graph::Node& node : graph.nodes()) {
    if (node.is_backward) refuse_graph(fmt::format("'{}' belongs to a backward pass", graph.name(node)));
    expect_settings(graph, node);
    for (size_t i = 0; i < std::min<size_t>(32, graph.inputs(node).size()); ++i) {
      if ((node.op->traits.updates >> i & 1U) == 0) continue;
      const ValueId id = graph.inputs(node)[i];
      const bool is_variable = graph.value(id).kind == graph::ValueKind::Variable;
      if (!is_variable || graph.variable_of(id).role() != VariableRole::Statistic)
        refuse_graph(
            fmt::format("'{}' updates '{}', which is no statistic", graph.name(node), graph.name(graph.value(id))));
    }
  }
}

void expect_variables(const graph::Body& graph, const std::string& scope) {
  for (const graph::Variable& variable : graph.variables()) {
    if (variable.role() == VariableRole::Optimiser)
      refuse_graph(fmt::format("variable '{}' belongs to an optimiser", variable.stored->name));
    if (!variable.stored->name.starts_with(scope) || variable.stored->name.size() == scope.size())
      refuse_graph(fmt::format("variable '{}' is not within '{}'", variable.stored->name, scope));
  }
}

ValueId find_value(const graph::Body& graph, const std::string& name) {
  if (!graph.has_value(name)) refuse_graph(fmt::format("the graph has no value '{}'", name));
  return graph.find(name);
}

model::NamedValues find_values(const graph::Body& graph,
                               const std::vector<std::pair<std::string, std::string>>& names) {
  model::NamedValues values;
  for (const auto& [name, value] : names) {
    for (const auto& [known, id] : values)
      if (known == name) refuse_graph(fmt::format("there are two tensors '{}'", name));
    values.emplace_back(name, find_value(graph, value));
  }
  return values;
}

std::vector<std::pair<std::string, std::string>> names_of(const graph::Body& graph, const model::NamedValues& values) {
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& [name, id] : values) names.emplace_back(name, std::string(graph.name(graph.value(id))));
  return names;
}

// Placeholders are the inputs and the targets, all of them.
void expect_placeholders(const graph::Body& graph, const model::NamedValues& inputs,
                         const model::NamedValues& targets) {
  std::vector<ValueId> fed;
  for (const auto* list : {&inputs, &targets})
    for (const auto& [name, id] : *list) {
      if (graph.value(id).kind != graph::ValueKind::Placeholder)
        refuse_graph(fmt::format("'{}' is no placeholder", name));
      fed.push_back(id);
    }
  std::ranges::sort(fed);
  std::vector<ValueId> there(graph.placeholders().begin(), graph.placeholders().end());
  std::ranges::sort(there);
  if (fed != there) refuse_graph("the placeholders of the graph are not its inputs and targets");
}

// The place splits values and nodes alike: no node before it has an output after it.
void expect_place(const graph::Body& graph, const model::GraphPlace& place) {
  const model::GraphPlace end = model::end_of(graph);
  bool is_right = place.nodes >= 0 && place.nodes <= end.nodes && place.values >= 0 && place.values <= end.values;
  if (is_right && place.nodes > 0) {
    const graph::Node& last = graph.node(place.nodes - 1);
    is_right = last.first_output + last.outputs <= place.values;
  }
  if (is_right && place.nodes < end.nodes) is_right = graph.node(place.nodes).first_output >= place.values;
  if (!is_right) refuse_graph("the place where the objective begins is not in the graph");
}

// The loss is a scalar, and sums have shapes without the batch.
void expect_objective(const graph::Body& graph, const model::NamedValues& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& [name, id] = outputs[i];
    const TensorType& type = graph.value(id).type;
    if (name != (i == 0 ? model::kLossName : model::sum_name(i - 1)))
      refuse_graph(fmt::format("'{}' is no output of an objective", name));
    if (type.dtype != DType::F32 || element_count(type.shape).is_batch() || (i == 0 && type.shape.rank() != 0))
      refuse_graph(fmt::format("the {} of the objective is {}", name, to_string(type)));
  }
  if (outputs.empty()) refuse_graph("an objective has no loss");
}

// A pass reads its inputs, variables, constants, and what its own nodes have made.
void expect_known_values(const model::TracedPass& pass) {
  const graph::Body& graph = pass.graph->body();
  for (NodeId id = pass.begin.nodes; id < pass.end.nodes; ++id)
    for (const ValueId input : graph.inputs(graph.node(id))) {
      const graph::ValueKind kind = graph.value(input).kind;
      const bool is_input = std::ranges::any_of(pass.inputs, [&](const auto& named) { return named.second == input; });
      const bool is_made = kind != graph::ValueKind::Placeholder && input >= pass.begin.values;
      if (!is_input && !is_made && kind != graph::ValueKind::Variable && kind != graph::ValueKind::Constant)
        refuse_graph(fmt::format("'{}' reads '{}', which is neither made in its pass nor an input of it",
                                 graph.name(graph.node(id)), graph.name(graph.value(input))));
    }
}

}  // namespace

StoredPass describe_pass(const model::TracedPass& pass, const std::optional<model::TracedPass>& objective) {
  const graph::Body& graph = pass.graph->body();
  for (const graph::Node& node : graph.nodes())
    if (!node.op->storable)
      throw Error(fmt::format("the model has '{}', an operator {} that no file of a model can hold", graph.name(node),
                              node.op->name),
                  ErrorKind::Usage);
  StoredPass stored{.inputs = names_of(graph, pass.inputs), .targets = {}, .outputs = names_of(graph, pass.outputs)};
  if (!objective) return stored;
  stored.objective = StoredObjective{objective->begin, names_of(graph, objective->outputs)};
  for (const auto& [name, id] : objective->inputs)
    if (name.starts_with(model::kTargetPrefix))
      stored.targets.emplace_back(name.substr(std::string_view(model::kTargetPrefix).size()),
                                  std::string(graph.name(graph.value(id))));
  return stored;
}

ParsedPass parse_pass(std::string_view text, const StoredPass& stored, const std::string& scope) {
  const auto graph = std::make_shared<Graph>();
  graph::parse_graph(text, find_storable, *graph, kLimits);
  graph->finalize();
  const graph::Body& body = graph->body();
  expect_nodes(body);
  expect_variables(body, scope);
  const model::NamedValues inputs = find_values(body, stored.inputs), targets = find_values(body, stored.targets);
  if (inputs.empty() || stored.outputs.empty()) refuse_graph("a model has at least one input and one output");
  expect_placeholders(body, inputs, targets);
  const model::GraphPlace end = model::end_of(body);
  const model::GraphPlace middle = stored.objective ? stored.objective->begin : end;
  expect_place(body, middle);
  ParsedPass parsed{{graph, scope, inputs, find_values(body, stored.outputs), {}, middle}, std::nullopt};
  for (const auto& [name, id] : parsed.forward.outputs)
    if (id >= middle.values) refuse_graph(fmt::format("output '{}' is made by the objective", name));
  expect_known_values(parsed.forward);
  if (!stored.objective) return parsed;
  model::TracedPass objective{graph,  scope, parsed.forward.outputs, find_values(body, stored.objective->outputs),
                              middle, end};
  for (const auto& [name, id] : targets) objective.inputs.emplace_back(model::kTargetPrefix + name, id);
  expect_objective(body, objective.outputs);
  expect_known_values(objective);
  parsed.objective = std::move(objective);
  return parsed;
}

}  // namespace plimsoll::store
