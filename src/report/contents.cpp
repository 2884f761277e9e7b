#include "report/contents.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace plimsoll::report {
namespace {

nlohmann::json row_json(const TensorRow& row) { return {{"name", row.name}, {"type", row.type}, {"bytes", row.bytes}}; }

}  // namespace

std::string tensor_text(const TensorRow& row) {
  return fmt::format("  {:>10}  {:<24} {}\n", format_bytes(row.bytes), row.type, row.name);
}

std::string weights_json_begin(const std::string& file, Bytes bytes) {
  return fmt::format("{{\n  \"file\": {},\n  \"bytes\": {},\n  \"tensors\": [", nlohmann::json(file).dump(), bytes);
}

std::string weights_json_row(const TensorRow& row, bool is_first) {
  return fmt::format("{}\n    {}", is_first ? "" : ",", row_json(row).dump());
}

std::string weights_json_end() { return "\n  ]\n}\n"; }

std::string model_text(const ModelFacts& facts) {
  std::string text = fmt::format("{}: input {}, labels {}\n", facts.name, facts.input, facts.labels);
  text += fmt::format("{} weights, {} with statistics, {} of optimiser state\n", grouped_text(facts.weights),
                      format_bytes(facts.weight_bytes), format_bytes(facts.optimiser_bytes));
  return text + fmt::format("{} nodes for training and inference; the graph itself takes {}\n", facts.nodes,
                            format_bytes(facts.graph_bytes));
}

std::string model_json(const ModelFacts& facts, int indent) {
  nlohmann::json variables = nlohmann::json::array();
  for (const TensorRow& row : facts.variables) variables.push_back(row_json(row));
  return nlohmann::json{{"model", facts.name},
                        {"input", facts.input},
                        {"labels", facts.labels},
                        {"weights", facts.weights},
                        {"weight_bytes", facts.weight_bytes},
                        {"optimiser_bytes", facts.optimiser_bytes},
                        {"nodes", facts.nodes},
                        {"graph_bytes", facts.graph_bytes},
                        {"operators", facts.operators},
                        {"variables", variables}}
      .dump(indent);
}

}  // namespace plimsoll::report
