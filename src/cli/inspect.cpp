// plimsoll inspect: what a built-in model, a weights file or a dumped plan holds.
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/plan_dump.h"
#include "cli/verbs.h"
#include "model/training.h"
#include "session/weights_file.h"

namespace plimsoll {
namespace {

constexpr size_t kShown = 20;

struct Row {
  std::string name, type;
  Bytes bytes;
};

void print_rows(const std::vector<Row>& rows, bool all, const char* what) {
  const size_t shown = all ? rows.size() : std::min(rows.size(), kShown);
  for (size_t i = 0; i < shown; ++i)
    fmt::print("  {:>10}  {:<24} {}\n", format_bytes(rows[i].bytes), rows[i].type, rows[i].name);
  if (shown < rows.size()) fmt::print("  ... and {} more {} (--all shows them)\n", rows.size() - shown, what);
}

nlohmann::json rows_json(const std::vector<Row>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows) list.push_back({{"name", row.name}, {"type", row.type}, {"bytes", row.bytes}});
  return list;
}

int inspect_file(const Settings& settings) {
  std::vector<Row> rows;
  Bytes total = 0;
  for (const StoredTensor& tensor : list_weights(settings.model)) {
    rows.push_back({tensor.name, std::string(name_of(tensor.dtype)) + to_string(tensor.dims), tensor.bytes});
    total += tensor.bytes;
  }
  if (settings.json) {
    fmt::print("{}\n",
               nlohmann::json{{"file", settings.model}, {"bytes", total}, {"tensors", rows_json(rows)}}.dump(2));
    return 0;
  }
  fmt::print("{}: {} tensors, {}\n", settings.model, rows.size(), format_exact_bytes(total));
  print_rows(rows, settings.all, "tensors");
  return 0;
}

int inspect_model(const Settings& settings) {
  const ModelSpec spec = find_model(settings.model, settings.model_options);
  Graph graph;
  build_training(graph, spec, make_optimiser(settings));
  if (settings.graph) {
    fmt::print("{}", to_string(graph));
    return 0;
  }
  std::map<std::string_view, int> operators;
  for (const Node& node : graph.nodes()) ++operators[node.op->name];
  std::vector<Row> rows;
  Bytes weights = 0;
  Bytes optimiser = 0;
  for (const Variable& variable : graph.variables()) {
    const Value& value = graph.value(variable.value);
    const Bytes bytes = element_count(value.type.shape).fixed() * size_of(value.type.dtype);
    (variable.role == VariableRole::Optimiser ? optimiser : weights) += bytes;
    if (variable.role != VariableRole::Optimiser)
      rows.push_back({std::string(graph.name(value)), to_string(value.type), bytes});
  }
  if (settings.json) {
    nlohmann::json ops(operators);
    fmt::print("{}\n", nlohmann::json{{"model", spec.name()},
                                      {"input", to_string(spec.input)},
                                      {"labels", to_string(spec.labels)},
                                      {"weights", count_weights(graph)},
                                      {"weight_bytes", weights},
                                      {"optimiser_bytes", optimiser},
                                      {"nodes", graph.nodes().size()},
                                      {"graph_bytes", graph.size_bytes()},
                                      {"operators", ops},
                                      {"variables", rows_json(rows)}}
                           .dump(2));
    return 0;
  }
  fmt::print("{}: input {}, labels {}\n", spec.name(), to_string(spec.input), to_string(spec.labels));
  fmt::print("{:L} weights, {} with statistics, {} of optimiser state\n", count_weights(graph), format_bytes(weights),
             format_bytes(optimiser));
  fmt::print("{} nodes for training and inference; the graph itself takes {}\n", graph.nodes().size(),
             format_bytes(graph.size_bytes()));
  print_rows(rows, settings.all, "variables");
  return 0;
}

}  // namespace

int run_inspect(const Settings& settings) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(settings.model, ignored)) return inspect_model(settings);
  return is_plan_file(settings.model) ? inspect_plan(settings) : inspect_file(settings);
}

}  // namespace plimsoll
