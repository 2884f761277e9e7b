#include "store/model_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/crc32c.h"
#include "graph/text.h"
#include "memory/file.h"
#include "store/model_facts.h"
#include "weights/finite.h"
#include "weights/weights_file.h"
#include "weights/weights_parts.h"

namespace plimsoll::store {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_model(const std::string& path, const std::string& why) {
  throw Error(fmt::format("'{}' is no model: {}", path, why), ErrorKind::BadData);
}

// A file of the directory itself: a link could lead anywhere.
memory::File open_plain(const std::string& path) {
  std::error_code failure;
  if (fs::is_symlink(fs::symlink_status(path, failure)))
    throw Error(fmt::format("'{}' is a symbolic link; the files of a model are in its directory", path),
                ErrorKind::BadData);
  return memory::File::open(path);
}

std::string read_text(const std::string& path, Bytes most) {
  const memory::File file = open_plain(path);
  const Bytes bytes = file.size();
  if (bytes > most)
    refuse_model(path, fmt::format("it has {}, more than the {} that such a file may have", format_bytes(bytes),
                                   format_bytes(most)));
  std::string text(static_cast<size_t>(bytes), '\0');
  text.resize(static_cast<size_t>(file.read_some(0, bytes, text.data(), path)));
  return text;
}

void expect_size(const std::string& path, Bytes bytes, Bytes expected) {
  if (bytes != expected)
    throw Error(fmt::format("'{}' has {} bytes, not {}: it is truncated or damaged", path, bytes, expected),
                ErrorKind::BadData);
}

void expect_checksum(const std::string& path, uint32_t checksum, uint32_t expected) {
  if (checksum != expected)
    throw Error(fmt::format("'{}' is damaged: its checksum is {:08x}, not {:08x}", path, checksum, expected),
                ErrorKind::BadData);
}

// Names and types, but for the batch: what both passes must agree on.
using EndTypes = std::vector<std::pair<std::string, TensorType>>;
EndTypes types_of(const model::TracedPass& pass, const model::NamedValues& values) {
  EndTypes types;
  for (const auto& [name, id] : values) types.emplace_back(name, pass.graph->body().value(id).type);
  return types;
}

void expect_same_ends(const model::TracedModel& traced, const std::string& path) {
  const auto refuse = [&] { refuse_model(path, "its passes have other inputs, outputs or variables than each other"); };
  if (traced.objective.has_value() != traced.training_objective.has_value()) refuse();
  const auto compare = [&](const model::TracedPass& a, const model::TracedPass& b) {
    if (types_of(a, a.inputs) != types_of(b, b.inputs) || types_of(a, a.outputs) != types_of(b, b.outputs)) refuse();
  };
  compare(traced.inference, *traced.training);
  if (traced.objective) compare(*traced.objective, *traced.training_objective);
  std::map<std::string_view, const StoredVariable*> known;
  for (const graph::Variable& variable : traced.inference.graph->body().variables())
    known.emplace(variable.stored->name, variable.stored);
  for (const graph::Variable& variable : traced.training->graph->body().variables()) {
    const auto at = known.find(variable.stored->name);
    if (at != known.end() && (at->second->type != variable.stored->type || at->second->role != variable.stored->role))
      refuse();
  }
}

std::shared_ptr<const model::TracedModel> read_graph(const std::string& path, const StoredFacts& facts) {
  const std::string text = read_text(path, kLargestGraphText);
  expect_size(path, static_cast<Bytes>(text.size()), facts.graph.bytes);
  expect_checksum(path, crc32c(std::as_bytes(std::span(text))), facts.graph.checksum);
  const Bytes second = facts.training ? facts.training->text_bytes : 0;
  if (facts.inference.text_bytes + second != static_cast<Bytes>(text.size()))
    refuse_model(path, "its passes do not have the lengths that are known of them");
  auto traced = std::make_shared<model::TracedModel>();
  traced->name = facts.name;
  const std::string scope = facts.name + "/";
  try {
    const std::string_view all = text;
    const auto first = static_cast<size_t>(facts.inference.text_bytes);
    ParsedPass inference = parse_pass(all.substr(0, first), facts.inference, scope);
    traced->inference = std::move(inference.forward);
    traced->objective = std::move(inference.objective);
    if (facts.training) {
      ParsedPass training = parse_pass(all.substr(first), *facts.training, scope);
      traced->training = std::move(training.forward);
      traced->training_objective = std::move(training.objective);
    }
  } catch (const Error& e) {
    refuse_model(path, e.what());
  }
  if (traced->training) expect_same_ends(*traced, path);
  return traced;
}

// Compares names and types with the header of the weights file; the numbers themselves are not read yet.
void expect_weights(const std::string& path, const model::TracedModel& traced) {
  std::unordered_map<std::string, weights::StoredTensor> wanted;
  for (weights::StoredTensor& tensor : list_weights(traced)) wanted.emplace(tensor.name, std::move(tensor));
  const weights::WeightsReader reader(path);
  reader.for_each([&](const weights::StoredTensor& tensor) {
    const auto at = wanted.find(tensor.name);
    if (at == wanted.end())
      refuse_model(path, fmt::format("the graph has no variable '{}'", tensor.name.substr(0, 200)));
    if (at->second.dtype != tensor.dtype || !(at->second.dims == tensor.dims))
      refuse_model(path, fmt::format("tensor '{}' is {}{} but the graph has {}{}", tensor.name, name_of(tensor.dtype),
                                     to_string(tensor.dims), name_of(at->second.dtype), to_string(at->second.dims)));
    wanted.erase(at);
  });
  if (!wanted.empty()) refuse_model(path, fmt::format("it has no tensor '{}'", wanted.begin()->first));
}

// The built-in metric that computes the same value: its function is compared on test numbers. Unset: there is none.
std::optional<std::string> kind_of(const MetricSums& metric, int64_t elements) {
  if (!metric.value) return "";
  for (const char* kind : {"mean", "precision", "recall", "auc"}) {
    const Metric known(kind);
    if (known.tensors != metric.tensors) continue;
    bool is_same = true;
    for (int trial = 0; trial < 3 && is_same; ++trial) {
      std::vector<double> sums;
      for (int64_t i = 0; i < elements; ++i) sums.push_back(1.5 + trial + static_cast<double>((7 * i + trial) % 11));
      is_same = known.value(sums, 13.0 + trial) == metric.value(sums, 13.0 + trial);
    }
    if (is_same) return kind;
  }
  return std::nullopt;
}

// Leaves out, in facts and passes alike, the sums of metrics that no file can hold.
void add_metrics(StoredFacts& facts, const ModelSpec& spec, const model::TracedModel& traced) {
  if (!traced.objective) return;
  std::vector<bool> keeps{true};  // the loss
  size_t sum = 1;
  for (const MetricSums& metric : spec.metrics) {
    int64_t elements = 0;
    for (size_t i = 0; i < metric.tensors; ++i) {
      const ValueId id = traced.objective->outputs.at(sum + i).second;
      elements += element_count(traced.objective->graph->body().value(id).type.shape).count();
    }
    const std::optional<std::string> kind = kind_of(metric, elements);
    if (kind) facts.metrics.push_back({metric.name, *kind, metric.tensors});
    keeps.insert(keeps.end(), metric.tensors, kind.has_value());
    sum += metric.tensors;
  }
  for (StoredPass* pass : {&facts.inference, facts.training ? &*facts.training : nullptr}) {
    if (pass == nullptr || !pass->objective) continue;
    auto& outputs = pass->objective->outputs;
    size_t kept = 0;
    for (size_t i = 0; i < outputs.size() && i < keeps.size(); ++i)
      if (keeps[i]) {
        outputs[kept] = {i == 0 ? model::kLossName : model::sum_name(kept - 1), outputs[i].second};
        ++kept;
      }
    outputs.resize(kept);
  }
}

std::vector<MetricSums> to_sums(const std::vector<StoredMetric>& metrics, size_t sums, const std::string& path) {
  std::vector<MetricSums> result;
  size_t tensors = 0;
  for (const StoredMetric& metric : metrics) {
    MetricSums made{metric.name, metric.tensors, {}};
    try {
      if (!metric.kind.empty()) made.value = Metric(metric.kind).value;
    } catch (const Error& e) {
      refuse_model(path, e.what());
    }
    if (!metric.kind.empty() && Metric(metric.kind).tensors != metric.tensors)
      refuse_model(path, fmt::format("metric '{}' has {} sums", metric.name, metric.tensors));
    tensors += metric.tensors;
    result.push_back(std::move(made));
  }
  if (tensors != sums) refuse_model(path, "its metrics are not those of its objective");
  return result;
}

memory::CheckedFile write_graph(const std::string& path, StoredFacts& facts, const model::TracedModel& traced) {
  memory::CheckedFile file{kModelGraph};
  memory::OutputFile output(path);
  const auto add = [&](const model::TracedPass& pass, StoredPass& stored) {
    const std::string text = to_string(*pass.graph);
    stored.text_bytes = static_cast<Bytes>(text.size());
    file.bytes += stored.text_bytes;
    file.checksum = crc32c(std::as_bytes(std::span(text)), file.checksum);
    output.write(text);
  };
  add(traced.inference, facts.inference);
  if (traced.training) add(*traced.training, *facts.training);
  if (file.bytes > kLargestGraphText)
    throw Error(fmt::format("the graph of model '{}' has {} as text, more than the {} that a file of a model may have",
                            traced.name, format_bytes(file.bytes), format_bytes(kLargestGraphText)),
                ErrorKind::Usage);
  output.finish();
  return file;
}

memory::CheckedFile write_weights(const std::string& path, const WeightsSource& weights) {
  memory::CheckedFile file{kModelWeights};
  const auto watch = [&](std::span<const std::byte> bytes) {
    file.bytes += static_cast<Bytes>(bytes.size());
    file.checksum = crc32c(bytes, file.checksum);
  };
  weights::write_weights_file(path, weights.tensors, weights.write, {.steps = weights.steps, .watch = watch});
  return file;
}

}  // namespace

StoredModel read_model(const std::string& path) {
  std::error_code failure;
  const fs::file_status there = fs::status(path, failure);
  if (!fs::exists(there)) refuse_model(path, "there is no such directory");
  if (!fs::is_directory(there)) refuse_model(path, "it is no directory");
  const std::string facts_path = path + "/" + kModelFacts;
  if (!is_model_directory(path)) refuse_model(path, fmt::format("it holds no {}", kModelFacts));
  const std::string text = read_text(facts_path, kLargestFacts);
  const StoredFacts facts = parse_facts(text, facts_path);
  StoredModel stored;
  stored.path = path;
  stored.traced = read_graph(path + "/" + kModelGraph, facts);
  stored.steps = facts.steps;
  stored.notes = facts.notes;
  stored.weights_bytes = facts.weights.bytes;
  stored.weights_checksum = facts.weights.checksum;
  stored.other_bytes = facts.graph.bytes + static_cast<Bytes>(text.size());
  expect_size(stored.weights_path(), open_plain(stored.weights_path()).size(), facts.weights.bytes);
  expect_weights(stored.weights_path(), *stored.traced);
  ModelSpec base;
  base.classes = facts.classes;
  base.batch = facts.batch;
  base.preprocessing = facts.preprocessing;
  const size_t sums = stored.traced->objective ? stored.traced->objective->outputs.size() - 1 : 0;
  base.metrics = to_sums(facts.metrics, sums, facts_path);
  base.can_train = stored.traced->training.has_value();
  stored.spec = model::replay_spec(base, stored.traced);
  return stored;
}

void expect_whole_weights(const StoredModel& stored) {
  const std::string path = stored.weights_path();
  const memory::File file = open_plain(path);
  expect_size(path, file.size(), stored.weights_bytes);
  std::array<std::byte, 64 * KiB> piece;
  uint32_t checksum = 0;
  for (Bytes at = 0, got = 1; got > 0; at += got) {
    got = file.read_some(at, std::ssize(piece), piece.data(), path);
    checksum = crc32c({piece.data(), static_cast<size_t>(got)}, checksum);
  }
  expect_checksum(path, checksum, stored.weights_checksum);
}

WeightsSource weights_of(weights::VariableAccess& session, Graph& graph) {
  session.open();
  return {weights::list_variables(graph, weights::WeightsPart::Model), weights::write_variables(session, graph),
          session.step_count()};
}

void add_weights(graph::ModelWeights& weights, const model::TracedModel& traced) {
  const size_t prefix = traced.name.size() + 1;
  for (const model::TracedPass* pass : {&traced.inference, traced.training ? &*traced.training : nullptr}) {
    if (pass == nullptr) continue;
    for (const graph::Variable& variable : pass->graph->body().variables()) {
      const std::string name = variable.stored->name.substr(prefix);
      if (variable.role() != VariableRole::Optimiser && weights.find(name) == nullptr)
        weights.put(name, std::make_shared<graph::ModelWeight>(*variable.stored));
    }
  }
}

std::vector<weights::StoredTensor> list_weights(const model::TracedModel& traced) {
  std::vector<weights::StoredTensor> tensors;
  std::map<std::string_view, bool> known;
  for (const model::TracedPass* pass : {&traced.inference, traced.training ? &*traced.training : nullptr}) {
    if (pass == nullptr) continue;
    for (const graph::Variable& variable : pass->graph->body().variables()) {
      const StoredVariable& stored = *variable.stored;
      if (!known.emplace(stored.name, true).second || stored.role == VariableRole::Optimiser) continue;
      tensors.push_back({stored.name, stored.type.dtype, at_batch(stored.type.shape, 1), 0,
                         element_count(stored.type.shape).fixed() * size_of(stored.type.dtype)});
    }
  }
  return tensors;
}

namespace {

// Where the tensors of a model lie in a weights file, which may be in parts.
struct FileSource {
  struct Place {
    size_t file;
    Bytes offset, bytes;
  };

  FileSource(const std::string& path, const model::TracedModel& traced) : tensors(list_weights(traced)) {
    std::unordered_map<std::string_view, const weights::StoredTensor*> wanted;
    for (const weights::StoredTensor& tensor : tensors) wanted.emplace(tensor.name, &tensor);
    for (const std::string& part : weights::list_part_paths(path)) {
      files.push_back(std::make_unique<weights::WeightsReader>(part));
      files.back()->for_each([&](const weights::StoredTensor& tensor) {
        const auto at = wanted.find(tensor.name);
        if (at != wanted.end()) add(part, tensor, *at->second);
      });
    }
    for (const weights::StoredTensor& tensor : tensors) {
      Bytes bytes = 0;
      for (const Place& place : places[tensor.name]) bytes += place.bytes;
      if (bytes != tensor.bytes)
        throw Error(fmt::format("'{}' has no tensor '{}': it belongs to another model", path, tensor.name),
                    ErrorKind::BadData);
    }
  }

  void add(const std::string& path, const weights::StoredTensor& found, const weights::StoredTensor& wanted) {
    const bool is_slice = found.dims.rank() == 1 && found.bytes <= wanted.bytes;
    if (found.dtype != wanted.dtype || !(found.dims == wanted.dims || is_slice))
      throw Error(
          fmt::format("'{}': tensor '{}' is {}{} but the model has {}{}", path, found.name, name_of(found.dtype),
                      to_string(found.dims), name_of(wanted.dtype), to_string(wanted.dims)),
          ErrorKind::BadData);
    places[found.name].push_back({files.size() - 1, found.offset, found.bytes});
  }

  std::vector<weights::StoredTensor> tensors;
  std::vector<std::unique_ptr<weights::WeightsReader>> files;
  std::unordered_map<std::string, std::vector<Place>> places;
};

}  // namespace

WeightsSource weights_of_file(const std::string& path, const model::TracedModel& traced) {
  const auto source = std::make_shared<FileSource>(path, traced);
  const auto write = [source, path](const weights::StoredTensor& tensor, const weights::PutBytes& put) {
    alignas(8) std::array<std::byte, 64 * KiB> piece;
    for (const FileSource::Place& place : source->places.at(tensor.name))
      for (Bytes at = 0; at < place.bytes; at += std::ssize(piece)) {
        const Bytes count = std::min<Bytes>(std::ssize(piece), place.bytes - at);
        source->files[place.file]->read(place.offset + at, piece.data(), count);
        const std::span<const std::byte> bytes(piece.data(), static_cast<size_t>(count));
        if (!weights::is_finite(tensor.dtype, bytes))
          throw Error(fmt::format("'{}' of '{}' holds NaN or infinity and is not saved", tensor.name, path),
                      ErrorKind::BadNumbers);
        put(bytes);
      }
  };
  return {[source](const weights::VisitTensor& visit) {
            for (const weights::StoredTensor& tensor : source->tensors) visit(tensor);
          },
          write, source->files.front()->steps()};
}

void save_model(ModelFolder& folder, const ModelSpec& spec, const model::TracedModel& traced,
                const WeightsSource& weights, const ModelNotes& notes) {
  StoredFacts facts;
  facts.name = traced.name;
  facts.classes = spec.classes;
  facts.batch = spec.batch;
  facts.steps = weights.steps;
  facts.preprocessing = spec.preprocessing;
  facts.notes = notes;
  facts.inference = describe_pass(traced.inference, traced.objective);
  if (traced.training) facts.training = describe_pass(*traced.training, traced.training_objective);
  add_metrics(facts, spec, traced);
  weights::expect_disk_room("a model", folder.folder(), weights::weights_file_bytes(weights.tensors));
  facts.graph = write_graph(folder.file(kModelGraph), facts, traced);
  facts.weights = write_weights(folder.file(kModelWeights), weights);
  const std::string text = facts_text(facts);
  if (static_cast<Bytes>(text.size()) > kLargestFacts)
    throw Error(fmt::format("the facts of model '{}' take {}, more than {}", traced.name,
                            format_bytes(static_cast<Bytes>(text.size())), format_bytes(kLargestFacts)),
                ErrorKind::Usage);
  memory::OutputFile file(folder.file(kModelFacts));
  file.write(text);
  file.finish();
  folder.place();
}

void save_model(const std::string& path, const ModelSpec& spec, const model::TracedModel& traced,
                const WeightsSource& weights, const ModelNotes& notes) {
  ModelFolder folder(path);
  save_model(folder, spec, traced, weights, notes);
}

}  // namespace plimsoll::store
