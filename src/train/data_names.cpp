#include "train/data_names.h"

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "input/opening/follow_data.h"
#include "input/opening/roles.h"
#include "weights/weights_reader.h"

namespace plimsoll::train {
namespace {

using NamesJson = nlohmann::json;

std::vector<std::pair<const char*, std::optional<int64_t>*>> sizes_of(ModelOptions& options) {
  return {{"image_size", &options.image_size}, {"channels", &options.channels}, {"classes", &options.classes}};
}

void read_names(const std::string& weights, const std::function<void(const NamesJson&)>& use) {
  const std::string text = weights::WeightsReader(weights).data_names();
  if (text.empty()) return;
  try {
    use(NamesJson::parse(text));
  } catch (const NamesJson::exception&) {
    throw Error(fmt::format("'{}': what it says of its classes, columns and sizes is damaged", weights),
                ErrorKind::BadData);
  }
}

}  // namespace

Preprocessing preprocessing_of(const Spec& spec, const ModelSpec& model) {
  Preprocessing facts = model.preprocessing;
  if (facts.class_names.empty()) facts.class_names = spec.data.classes;
  if (facts.class_names.empty() && spec.batches.train) facts.class_names = spec.batches.train->class_names();
  if (facts.columns.empty()) facts.columns = spec.data.columns;
  if (facts.label.empty()) facts.label = spec.data.label;
  facts.mean = spec.pipeline.mean;
  facts.deviation = spec.pipeline.deviation;
  return facts;
}

std::string data_names_text(const ModelSpec& model) {
  const Preprocessing& preprocessing = model.preprocessing;
  NamesJson json = NamesJson::object();
  if (!preprocessing.class_names.empty()) json["classes"] = preprocessing.class_names;
  if (!preprocessing.columns.empty()) json["columns"] = preprocessing.columns;
  if (!preprocessing.label.empty()) json["label"] = preprocessing.label;
  if (model.inputs.size() == 1 && input::is_image(model.input()) && model.classes > 0)
    json["model"] = {{"name", model.name()},
                     {"image_size", model.input().shape[2].count()},
                     {"channels", model.input().shape[1].count()},
                     {"classes", model.classes}};
  // A name that is not UTF-8 is no reason to lose the weights.
  return json.empty() ? "" : json.dump(-1, ' ', false, NamesJson::error_handler_t::replace);
}

void read_data_names(const std::string& weights, Preprocessing& preprocessing) {
  read_names(weights, [&](const NamesJson& json) {
    if (json.contains("classes")) preprocessing.class_names = json.at("classes").get<std::vector<std::string>>();
    if (json.contains("columns")) preprocessing.columns = json.at("columns").get<std::vector<std::string>>();
    if (json.contains("label")) preprocessing.label = json.at("label").get<std::string>();
  });
}

void read_model_options(const std::string& weights, const std::string& model, ModelOptions& options) {
  read_names(weights, [&](const NamesJson& json) {
    if (!json.contains("model") || json.at("model").at("name").get<std::string>() != model) return;
    ModelOptions all = options;
    for (const auto& [name, option] : sizes_of(all))
      if (!*option && json.at("model").contains(name)) *option = json.at("model").at(name).get<int64_t>();
    if (input::has_options(model, all)) options = all;
  });
}

}  // namespace plimsoll::train
