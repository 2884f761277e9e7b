#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include "base/nearest.h"
#include "graph/body.h"
#include "model/families.h"

namespace plimsoll::model {
namespace {

constexpr std::pair<std::string_view, ModelSpec (*)(ModelSettings&)> kModels[] = {
    {"mlp", mlp},
    {"lenet", lenet},
    {"fashion", fashion},
    {"siamese", siamese},
    {"resnet18", resnet18},
    {"resnet50", resnet50},
    {"mobilenet_v2", mobilenet_v2},
    {"vgg16", vgg16},
    {"unet", unet},
    {"bert-base", bert_base},
    {"gpt2-small", gpt2_small},
    {"gpt2-medium", gpt2_medium},
    {"gpt2-large", gpt2_large},
    {"gpt2-xl", gpt2_xl},
    {"dense-chain", dense_chain},
};

}  // namespace

int64_t ModelSettings::take(std::optional<int64_t>& option, int64_t otherwise, std::string_view what) const {
  const int64_t value = std::exchange(option, std::nullopt).value_or(otherwise);
  if (value < 1) fail(fmt::format("{} must be positive but is {}", what, value));
  // Larger models can't be planned: each layer is some ten nodes, and products of sizes must fit 64 bits.
  constexpr int64_t kMost = 100'000, kMostSize = 2'000'000'000;
  const int64_t most = what == "layers" ? kMost : kMostSize;
  if (value > most) fail(fmt::format("{} can be at most {} but is {}", what, most, value));
  return value;
}

double ModelSettings::dropout(double otherwise) {
  const double rate = std::exchange(options_.dropout, std::nullopt).value_or(otherwise);
  if (!(rate >= 0 && rate < 1)) fail(fmt::format("dropout must be at least 0 and below 1 but is {}", rate));
  return rate;
}

void ModelSettings::expect_all_taken() const {
  const std::pair<bool, std::string_view> given[] = {{options_.image_size.has_value(), "image size"},
                                                     {options_.channels.has_value(), "number of channels"},
                                                     {options_.classes.has_value(), "number of classes"},
                                                     {options_.sequence.has_value(), "sequence length"},
                                                     {options_.layers.has_value(), "number of layers"},
                                                     {options_.width.has_value(), "width"},
                                                     {options_.dropout.has_value(), "dropout"}};
  for (const auto& [left, what] : given)
    if (left) fail(fmt::format("its {} can't be set", what));
}

void ModelSettings::fail(const std::string& why) const {
  throw Error(fmt::format("model '{}': {}", model_, why), ErrorKind::Usage);
}

ImageSizes image_sizes(ModelSettings& settings, ImageSizes otherwise) {
  return {settings.image_size(otherwise.size), settings.channels(otherwise.channels),
          settings.classes(otherwise.classes)};
}

Objective classes_objective(Tensor logits, Tensor labels) {
  return {sparse_cross_entropy(logits, labels, "loss"), Metric::accuracy().sums(logits, labels)};
}

namespace {

// Sizes that a layer can't have are a mistake of who gave them.
Layer explain_sizes(std::string model, Layer forward) {
  return [model = std::move(model), forward = std::move(forward)](Tensor x, bool training) {
    try {
      return forward(std::move(x), training);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::General) throw;
      throw Error(fmt::format("model '{}' can't have these sizes: {}", model, e.what()), ErrorKind::Usage);
    }
  };
}

}  // namespace

ModelSpec make_spec(const ModelSettings& settings, Layer forward, const TensorType& input, const TensorType& labels,
                    ObjectiveOfOne objective) {
  return {.model = {settings.model(), explain_sizes(settings.model(), std::move(forward))},
          .inputs = {{"input", input}},
          .targets = {{"labels", labels}},
          .objective = [objective = std::move(objective)](const NamedTensors& outputs, const NamedTensors& targets) {
            return objective(outputs.only(), targets.only());
          }};
}

ModelSpec image_classifier(const ModelSettings& settings, const ImageSizes& sizes, int64_t batch, Layer forward) {
  ModelSpec spec =
      make_spec(settings, std::move(forward), {DType::F32, {Dim::batch(), sizes.channels, sizes.size, sizes.size}},
                {DType::I32, {Dim::batch()}}, classes_objective);
  spec.metrics = {{"accuracy", 1, Metric::accuracy().value}};
  spec.classes = sizes.classes;
  spec.batch = batch;
  return spec;
}

}  // namespace plimsoll::model

namespace plimsoll {

ModelSpec find_model(std::string_view name, const ModelOptions& options) {
  for (const auto& [known, make] : model::kModels) {
    if (known != name) continue;
    model::ModelSettings settings(name, options);
    ModelSpec spec = make(settings);
    settings.expect_all_taken();
    return spec;
  }
  const std::vector<std::string> known = model_names();
  throw Error(fmt::format("there is no model '{}'; did you mean {}? Known are {}", name, nearest(name, known),
                          fmt::join(known, ", ")),
              ErrorKind::Usage);
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& model : model::kModels) names.emplace_back(model.first);
  return names;
}

int64_t count_weights(const Graph& graph) {
  int64_t count = 0;
  for (const graph::Variable& variable : graph.body().variables())
    if (variable.role() == VariableRole::Weight) count += element_count(variable.stored->type.shape).fixed();
  return count;
}

}  // namespace plimsoll
