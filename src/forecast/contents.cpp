#include "forecast/contents.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <span>

#include "model/training.h"
#include "store/model_file.h"
#include "train/training.h"

namespace plimsoll::forecast {

namespace {

// The type of the only tensor, or the names and types of several.
std::string list_types(const std::vector<NamedType>& tensors) {
  if (tensors.empty()) return "";
  if (tensors.size() == 1) return to_string(tensors[0].type);
  std::string text;
  for (const auto& [name, type] : tensors) text += (text.empty() ? "" : ", ") + name + " " + to_string(type);
  return text;
}

// Elements that are 0; of floats, those of either sign.
template <class Word>
int64_t count_zeros(std::span<const std::byte> bytes, bool has_sign) {
  constexpr auto kSign = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));
  int64_t zeros = 0;
  for (size_t at = 0; at < bytes.size(); at += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    zeros += word == 0 || (has_sign && word == kSign) ? 1 : 0;
  }
  return zeros;
}

int64_t count_zeros(DType dtype, std::span<const std::byte> bytes) {
  switch (size_of(dtype)) {
    case 8:
      return count_zeros<uint64_t>(bytes, is_float(dtype));
    case 4:
      return count_zeros<uint32_t>(bytes, is_float(dtype));
    case 2:
      return count_zeros<uint16_t>(bytes, is_float(dtype));
    default:
      return count_zeros<uint8_t>(bytes, false);
  }
}

int64_t count_zeros(const weights::WeightsReader& file, const weights::StoredTensor& tensor) {
  std::array<std::byte, 64 * KiB> piece;  // a multiple of every element
  int64_t zeros = 0;
  for (Bytes at = 0; at < tensor.bytes; at += std::ssize(piece)) {
    const Bytes count = std::min<Bytes>(std::ssize(piece), tensor.bytes - at);
    file.read(tensor.offset + at, piece.data(), count);
    zeros += count_zeros(tensor.dtype, {piece.data(), static_cast<size_t>(count)});
  }
  return zeros;
}

// Tensors that stand for a weight with zeros left out: its elements count with its values, other parts count none.
std::map<std::string, int64_t> list_sparse_parts(const graph::Body& graph) {
  std::map<std::string, int64_t> elements;
  for (const graph::Node& node : graph.nodes()) {
    const bool is_product = node.op->name == "sparse_matmul";
    if (!is_product && node.op->name != "sparse_expand") continue;
    const auto inputs = graph.inputs(node);
    const auto name = [&](size_t i) { return std::string(graph.name(graph.value(inputs[i]))); };
    const size_t first = is_product ? 1 : 0;
    elements[name(first)] = is_product ? graph.value(inputs[0]).type.shape[1].fixed() * graph.attrs(node).i("columns")
                                       : element_count(graph.attrs(node).dims("shape"));
    elements[name(first + 1)] = elements[name(first + 2)] = 0;
  }
  return elements;
}

}  // namespace

report::StoredModelFacts inspect_stored(const store::StoredModel& stored) {
  store::expect_whole_weights(stored);
  const ModelSpec& model = stored.spec;
  report::StoredModelFacts facts;
  facts.path = stored.path;
  facts.name = model.name();
  facts.input = list_types(model.inputs);
  facts.labels = list_types(model.targets);
  facts.classes = model.classes;
  facts.steps = stored.steps;
  facts.nodes = stored.traced->inference.end.nodes;
  facts.can_train = model.can_train;
  facts.class_names = model.preprocessing.class_names;
  facts.mean = model.preprocessing.mean;
  facts.deviation = model.preprocessing.deviation;
  facts.notes = stored.notes;
  facts.disk_bytes = stored.weights_bytes + stored.other_bytes;
  const std::map<std::string, int64_t> sparse = list_sparse_parts(stored.traced->inference.graph->body());
  std::map<std::string, size_t> numbers;  // of layers, in the order of the graph
  std::map<std::string, size_t> places;   // the layer of each tensor
  for (const weights::StoredTensor& tensor : store::list_weights(*stored.traced)) {
    const std::string within = tensor.name.substr(model.name().size() + 1);
    const size_t slash = within.find_last_of('/');
    const std::string layer = slash == std::string::npos ? "(model)" : within.substr(0, slash);
    const size_t number = numbers.try_emplace(layer, facts.layers.size()).first->second;
    if (number == facts.layers.size()) facts.layers.push_back({.name = layer});
    report::WeightLayer& row = facts.layers[number];
    places[tensor.name] = number;
    row.tensors.push_back({slash == std::string::npos ? within : within.substr(slash + 1),
                           std::string(name_of(tensor.dtype)) + to_string(tensor.dims), tensor.bytes});
    const auto part = sparse.find(tensor.name);
    row.elements += part == sparse.end() ? element_count(tensor.dims) : part->second;
    row.memory_bytes += tensor.bytes;
  }
  const weights::WeightsReader file(stored.weights_path());
  file.for_each([&](const weights::StoredTensor& tensor) {
    report::WeightLayer& row = facts.layers[places.at(tensor.name)];
    row.disk_bytes += tensor.bytes;
    const auto part = sparse.find(tensor.name);
    if (part == sparse.end()) row.zeros += count_zeros(file, tensor);
    if (part != sparse.end() && part->second > 0) row.zeros += part->second - element_count(tensor.dims);
  });
  return facts;
}

report::ModelFacts inspect_model(const train::Spec& spec) {
  const ModelSpec model = train::model_of(spec);
  Graph graph;
  model::build_training(graph, model, train::optimiser_of(spec), {}, 1, spec.freeze);
  report::ModelFacts facts;
  facts.name = model.name();
  facts.input = list_types(model.inputs);
  facts.labels = list_types(model.targets);
  facts.weights = count_weights(graph);
  facts.nodes = static_cast<int64_t>(graph.body().nodes().size());
  facts.graph_bytes = graph.size_bytes();
  for (const graph::Node& node : graph.body().nodes()) ++facts.operators[std::string(node.op->name)];
  for (const graph::Variable& variable : graph.body().variables()) {
    const graph::Value& value = graph.body().value(variable.value);
    const Bytes bytes = element_count(value.type.shape).fixed() * size_of(value.type.dtype);
    const bool is_state = variable.role() == VariableRole::Optimiser;
    (is_state ? facts.optimiser_bytes : facts.weight_bytes) += bytes;
    if (!is_state) facts.variables.push_back({std::string(graph.body().name(value)), to_string(value.type), bytes});
  }
  return facts;
}

std::string model_graph_text(const train::Spec& spec) {
  Graph graph;
  model::build_training(graph, train::model_of(spec), train::optimiser_of(spec), {}, 1, spec.freeze);
  return to_string(graph);
}

}  // namespace plimsoll::forecast
