// What a stored model holds, layer by layer.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "report/contents.h"

namespace plimsoll::report {
namespace {

struct Totals {
  int64_t elements = 0, zeros = 0;
  Bytes memory_bytes = 0;
};

Totals total_of(const StoredModelFacts& facts) {
  Totals totals;
  for (const WeightLayer& layer : facts.layers) {
    totals.elements += layer.elements;
    totals.zeros += layer.zeros;
    totals.memory_bytes += layer.memory_bytes;
  }
  return totals;
}

double percent_of_zeros(int64_t zeros, int64_t elements) {
  return elements == 0 ? 0 : 100.0 * static_cast<double>(zeros) / static_cast<double>(elements);
}

std::string tensors_text(const WeightLayer& layer) {
  std::vector<std::string> texts;
  for (const TensorRow& tensor : layer.tensors) texts.push_back(tensor.name + " " + tensor.type);
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

std::string stored_model_text(const StoredModelFacts& facts, size_t most_layers, const std::string& see_all) {
  const Totals totals = total_of(facts);
  std::string text = fmt::format("{}: {}, input {}{}\n", facts.path, facts.name, facts.input,
                                 facts.labels.empty() ? "" : ", labels " + facts.labels);
  if (!facts.can_train) text += "for inference: it can't be trained\n";
  if (facts.classes > 0) text += fmt::format("{} classes", facts.classes);
  if (!facts.class_names.empty()) {
    const size_t shown = std::min<size_t>(facts.class_names.size(), 10);
    text += fmt::format(
        "{}{}{}", facts.classes > 0 ? ": " : "classes ",
        fmt::join(facts.class_names.begin(), facts.class_names.begin() + static_cast<ptrdiff_t>(shown), ", "),
        shown < facts.class_names.size() ? ", ..." : "");
  }
  if (facts.classes > 0 || !facts.class_names.empty()) text += "\n";
  if (!facts.mean.empty())
    text += fmt::format("inputs less {} over {}\n", fmt::join(facts.mean, ","), fmt::join(facts.deviation, ","));
  for (const auto& [name, note] : facts.notes) text += fmt::format("{}: {}\n", name, note);
  text += fmt::format(
      "{} numbers, {:.1f} % of them 0; {} in memory, {} on disk with the graph of {} nodes; {} steps trained\n",
      grouped_text(totals.elements), percent_of_zeros(totals.zeros, totals.elements), format_bytes(totals.memory_bytes),
      format_bytes(facts.disk_bytes), facts.nodes, facts.steps);
  text += fmt::format("  {:>12} {:>10} {:>10} {:>8}  layer\n", "numbers", "memory", "disk", "zeros");
  for (size_t i = 0; i < facts.layers.size() && i < most_layers; ++i) {
    const WeightLayer& layer = facts.layers[i];
    text += fmt::format("  {:>12} {:>10} {:>10} {:>6.1f} %  {}: {}\n", grouped_text(layer.elements),
                        format_bytes(layer.memory_bytes), format_bytes(layer.disk_bytes),
                        percent_of_zeros(layer.zeros, layer.elements), layer.name, tensors_text(layer));
  }
  if (facts.layers.size() > most_layers)
    text += fmt::format("  ... and {} more layers ({} shows them)\n", facts.layers.size() - most_layers, see_all);
  return text;
}

std::string stored_model_json(const StoredModelFacts& facts, int indent) {
  nlohmann::json layers = nlohmann::json::array();
  for (const WeightLayer& layer : facts.layers) {
    nlohmann::json tensors = nlohmann::json::array();
    for (const TensorRow& tensor : layer.tensors)
      tensors.push_back({{"name", tensor.name}, {"type", tensor.type}, {"bytes", tensor.bytes}});
    layers.push_back({{"layer", layer.name},
                      {"elements", layer.elements},
                      {"zeros", layer.zeros},
                      {"memory_bytes", layer.memory_bytes},
                      {"disk_bytes", layer.disk_bytes},
                      {"tensors", std::move(tensors)}});
  }
  const Totals totals = total_of(facts);
  nlohmann::json notes = nlohmann::json::object();
  for (const auto& [name, note] : facts.notes) notes[name] = note;
  return nlohmann::json{{"path", facts.path},
                        {"model", facts.name},
                        {"input", facts.input},
                        {"labels", facts.labels},
                        {"classes", facts.classes},
                        {"class_names", facts.class_names},
                        {"mean", facts.mean},
                        {"deviation", facts.deviation},
                        {"can_train", facts.can_train},
                        {"notes", std::move(notes)},
                        {"steps", facts.steps},
                        {"nodes", facts.nodes},
                        {"elements", totals.elements},
                        {"zeros", totals.zeros},
                        {"memory_bytes", totals.memory_bytes},
                        {"disk_bytes", facts.disk_bytes},
                        {"layers", std::move(layers)}}
      .dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string saved_json(const std::string& path, const std::string& model, Bytes disk_bytes) {
  return nlohmann::json{{"saved", path}, {"model", model}, {"disk_bytes", disk_bytes}}.dump(
      kOneLine, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace plimsoll::report
