// plimsoll inspect: what a built-in model, a weights file or a dumped plan holds.
#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <plimsoll/error.h>
#include "cli/plan_dump.h"
#include "cli/verbs.h"
#include "memory/file.h"
#include "model/training.h"
#include "session/weights_file.h"

namespace plimsoll::cli {
namespace {

constexpr int64_t kShown = 20;

struct Row {
  std::string name, type;
  Bytes bytes;
};

void print_row(const Row& row) { fmt::print("  {:>10}  {:<24} {}\n", format_bytes(row.bytes), row.type, row.name); }

void print_rest(int64_t count, const char* what) {
  fmt::print("  ... and {} more {} (--all shows them)\n", count, what);
}

void print_rows(const std::vector<Row>& rows, bool all, const char* what) {
  const auto count = static_cast<int64_t>(rows.size());
  const int64_t shown = all ? count : std::min(count, kShown);
  for (int64_t i = 0; i < shown; ++i) print_row(rows[static_cast<size_t>(i)]);
  if (shown < count) print_rest(count - shown, what);
}

nlohmann::json rows_json(const std::vector<Row>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows) list.push_back({{"name", row.name}, {"type", row.type}, {"bytes", row.bytes}});
  return list;
}

// One line at a time: a file may list more tensors than fit in memory.
int inspect_file(const Settings& settings) {
  const session::WeightsReader file(settings.model);
  int64_t shown = 0;
  if (settings.json) {
    fmt::print("{{\n  \"file\": {},\n  \"bytes\": {},\n  \"tensors\": [", nlohmann::json(settings.model).dump(),
               file.data_bytes());
    file.for_each([&](const session::StoredTensor& tensor) {
      fmt::print("{}\n    {}", shown++ > 0 ? "," : "",
                 nlohmann::json{{"name", tensor.name},
                                {"type", std::string(name_of(tensor.dtype)) + to_string(tensor.dims)},
                                {"bytes", tensor.bytes}}
                     .dump());
    });
    fmt::print("\n  ]\n}}\n");
    return 0;
  }
  fmt::print("{}: {} tensors, {}\n", settings.model, file.tensors(), format_exact_bytes(file.data_bytes()));
  const int64_t wanted = settings.all ? file.tensors() : kShown;
  file.for_each([&](const session::StoredTensor& tensor) {
    if (shown++ < wanted)
      print_row({tensor.name, std::string(name_of(tensor.dtype)) + to_string(tensor.dims), tensor.bytes});
  });
  if (shown > wanted) print_rest(shown - wanted, "tensors");
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
  stop_if_asked();
  const std::vector<std::string> models = model_names();
  std::error_code failure;
  const bool is_file = std::filesystem::is_regular_file(settings.model, failure);
  if (!is_file && std::find(models.begin(), models.end(), settings.model) != models.end())
    return inspect_model(settings);
  // Says what is wrong with a path that leads nowhere or to no regular file.
  if (!is_file && (settings.model.find_first_of("/.") != std::string::npos ||
                   std::filesystem::exists(std::filesystem::symlink_status(settings.model, failure))))
    File::open(settings.model);
  if (!is_file) return inspect_model(settings);
  return is_plan_file(settings.model) ? inspect_plan(settings) : inspect_file(settings);
}

}  // namespace plimsoll::cli
