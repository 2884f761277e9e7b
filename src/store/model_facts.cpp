#include "store/model_facts.h"

#include <charconv>
#include <cmath>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <plimsoll/error.h>
#include "base/crc32c.h"
#include "graph/names.h"
#include "model/normalisation.h"
#include "store/model_folder.h"

namespace plimsoll::store {
namespace {

using FactsJson = nlohmann::json;
using Names = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kFormat = "plimsoll model";
constexpr int kFormatVersion = 1;
constexpr int kDeepest = 8;  // levels of the text

FactsJson from_names(const Names& names) {
  FactsJson list = FactsJson::array();
  for (const auto& [name, value] : names) list.push_back({name, value});
  return list;
}

Names to_names(const FactsJson& list) {
  Names names;
  for (const FactsJson& pair : list) {
    if (pair.size() != 2) throw Error("a pair of names is damaged");
    names.emplace_back(pair.at(0).get<std::string>(), pair.at(1).get<std::string>());
  }
  return names;
}

FactsJson from_pass(const StoredPass& pass) {
  FactsJson json = {{"text_bytes", pass.text_bytes},
                    {"inputs", from_names(pass.inputs)},
                    {"targets", from_names(pass.targets)},
                    {"outputs", from_names(pass.outputs)}};
  if (pass.objective)
    json["objective"] = {{"nodes_before", pass.objective->begin.nodes},
                         {"values_before", pass.objective->begin.values},
                         {"outputs", from_names(pass.objective->outputs)}};
  return json;
}

int64_t to_count(const FactsJson& json, int64_t least, int64_t most) {
  if (!json.is_number_integer()) throw Error("a number is damaged");
  const auto count = json.get<int64_t>();
  if (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX) throw Error("a number is too large");
  if (count < least || count > most) throw Error(fmt::format("{} is no number from {} to {}", count, least, most));
  return count;
}

StoredPass to_pass(const FactsJson& json) {
  StoredPass pass;
  pass.text_bytes = to_count(json.at("text_bytes"), 0, kLargestGraphText);
  pass.inputs = to_names(json.at("inputs"));
  pass.targets = to_names(json.at("targets"));
  pass.outputs = to_names(json.at("outputs"));
  if (!json.contains("objective")) return pass;
  const FactsJson& objective = json.at("objective");
  pass.objective = StoredObjective{{static_cast<NodeId>(to_count(objective.at("nodes_before"), 0, INT32_MAX)),
                                    static_cast<ValueId>(to_count(objective.at("values_before"), 0, INT32_MAX))},
                                   to_names(objective.at("outputs"))};
  return pass;
}

FactsJson from_file(const memory::CheckedFile& file) {
  return {{"name", file.name}, {"bytes", file.bytes}, {"crc32c", fmt::format("{:08x}", file.checksum)}};
}

memory::CheckedFile to_file(const FactsJson& json, const char* name) {
  memory::CheckedFile file{json.at("name").get<std::string>(), to_count(json.at("bytes"), 0, INT64_MAX)};
  if (file.name != name) throw Error(fmt::format("it lists no {}", name));
  const auto& digits = json.at("crc32c").get_ref<const std::string&>();
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), file.checksum, 16);
  if (status != std::errc() || end != digits.data() + digits.size()) throw Error("the checksum of a file is no number");
  return file;
}

FactsJson from_metrics(const std::vector<StoredMetric>& metrics) {
  FactsJson list = FactsJson::array();
  for (const StoredMetric& metric : metrics)
    list.push_back({{"name", metric.name}, {"kind", metric.kind}, {"sums", metric.tensors}});
  return list;
}

std::vector<StoredMetric> to_metrics(const FactsJson& list) {
  std::vector<StoredMetric> metrics;
  for (const FactsJson& metric : list)
    metrics.push_back(
        {metric.at("name"), metric.at("kind"), static_cast<size_t>(to_count(metric.at("sums"), 1, 1000))});
  return metrics;
}

std::vector<float> to_floats(const FactsJson& list) {
  std::vector<float> numbers;
  for (const FactsJson& number : list) numbers.push_back(number.get<float>());
  return numbers;
}

Preprocessing to_preprocessing(const FactsJson& json) {
  Preprocessing facts;
  facts.class_names = json.at("class_names").get<std::vector<std::string>>();
  facts.mean = to_floats(json.at("mean"));
  facts.deviation = to_floats(json.at("deviation"));
  facts.byte_scale = json.at("byte_scale").get<float>();
  if (!(facts.byte_scale > 0) || !std::isfinite(facts.byte_scale)) throw Error("the scale of bytes makes no sense");
  if (const std::string fault = model::normalisation_fault(facts.mean, facts.deviation); !fault.empty())
    throw Error(fault);
  if (json.contains("columns")) facts.columns = json.at("columns").get<std::vector<std::string>>();
  if (json.contains("label")) facts.label = json.at("label").get<std::string>();
  return facts;
}

std::string checksum_of_facts(const FactsJson& json) {
  const std::string text = json.dump();
  return fmt::format("{:08x}", crc32c(std::as_bytes(std::span(text))));
}

// Null where it is damaged or nested too deeply.
FactsJson parse_bounded(const std::string& text) {
  bool is_deep = false;
  const auto watch = [&](int depth, FactsJson::parse_event_t, FactsJson&) {
    is_deep = is_deep || depth > kDeepest;
    return !is_deep;
  };
  FactsJson json = FactsJson::parse(text, watch, false);
  return is_deep || json.is_discarded() ? FactsJson() : json;
}

StoredFacts to_facts(const FactsJson& json) {
  StoredFacts facts;
  facts.name = json.at("name").get<std::string>();
  graph::expect_name(facts.name);
  if (facts.name.empty() || facts.name.find('/') != std::string::npos) throw Error("its name is none of a model");
  facts.classes = to_count(json.at("classes"), 0, INT64_MAX);
  facts.batch = to_count(json.at("batch"), 1, INT32_MAX);
  facts.steps = to_count(json.at("steps"), 0, INT64_MAX);
  facts.preprocessing = to_preprocessing(json.at("preprocessing"));
  facts.metrics = to_metrics(json.at("metrics"));
  facts.inference = to_pass(json.at("inference"));
  if (json.contains("training")) facts.training = to_pass(json.at("training"));
  facts.notes = to_names(json.at("notes"));
  facts.graph = to_file(json.at("files").at(0), kModelGraph);
  facts.weights = to_file(json.at("files").at(1), kModelWeights);
  return facts;
}

}  // namespace

std::string facts_text(const StoredFacts& facts) {
  const Preprocessing& preprocessing = facts.preprocessing;
  if (const std::string fault = model::normalisation_fault(preprocessing.mean, preprocessing.deviation); !fault.empty())
    throw Error(fault + "; a model with it could not be used", ErrorKind::Usage);
  try {
    FactsJson json = {{"format", kFormat},
                      {"version", kFormatVersion},
                      {"name", facts.name},
                      {"classes", facts.classes},
                      {"batch", facts.batch},
                      {"steps", facts.steps},
                      {"preprocessing",
                       {{"class_names", preprocessing.class_names},
                        {"mean", preprocessing.mean},
                        {"deviation", preprocessing.deviation},
                        {"byte_scale", preprocessing.byte_scale},
                        {"columns", preprocessing.columns},
                        {"label", preprocessing.label}}},
                      {"metrics", from_metrics(facts.metrics)},
                      {"inference", from_pass(facts.inference)},
                      {"notes", from_names(facts.notes)},
                      {"files", {from_file(facts.graph), from_file(facts.weights)}}};
    if (facts.training) json["training"] = from_pass(*facts.training);
    json["crc32c"] = checksum_of_facts(json);
    return json.dump(1) + "\n";
  } catch (const FactsJson::exception&) {
    throw Error("a name of the model, of a class or of a column is not UTF-8 and can't be saved; give another name",
                ErrorKind::Usage);
  }
}

StoredFacts parse_facts(const std::string& text, const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    throw Error(fmt::format("'{}' is no model: {}", path, why), ErrorKind::BadData);
  };
  FactsJson json = parse_bounded(text);
  if (!json.is_object()) refuse("it is truncated or damaged");
  try {
    if (json.at("format") != kFormat) refuse("it is a file of another kind");
    if (json.at("version") != kFormatVersion)
      refuse(fmt::format("it has version {}, not {}; this program is older or newer than the one that wrote it",
                         json.at("version").dump(), kFormatVersion));
    const std::string checksum = json.at("crc32c");
    json.erase("crc32c");
    if (checksum != checksum_of_facts(json)) refuse("its checksum is wrong, so it is damaged");
    return to_facts(json);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::BadData) throw;
    refuse(e.what());
  } catch (const FactsJson::exception&) {
    refuse("a part of it is missing or damaged");
  }
  return {};
}

}  // namespace plimsoll::store
