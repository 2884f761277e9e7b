// What the files of the model families share. Each gives makers; zoo.cpp lists them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <plimsoll/model.h>
#include <plimsoll/ops.h>

namespace plimsoll::model {

// The options of one model, asked for with their defaults.
class ModelSettings {
 public:
  ModelSettings(std::string_view model, const ModelOptions& options) : model_(model), options_(options) {}

  int64_t image_size(int64_t otherwise) { return take(options_.image_size, otherwise, "image size"); }
  int64_t channels(int64_t otherwise) { return take(options_.channels, otherwise, "channels"); }
  int64_t classes(int64_t otherwise) { return take(options_.classes, otherwise, "classes"); }
  int64_t sequence(int64_t otherwise) { return take(options_.sequence, otherwise, "sequence length"); }
  int64_t layers(int64_t otherwise) { return take(options_.layers, otherwise, "layers"); }
  int64_t width(int64_t otherwise) { return take(options_.width, otherwise, "width"); }
  double dropout(double otherwise);

  // Throws Error for an option that the model does not have.
  void expect_all_taken() const;
  const std::string& model() const { return model_; }
  [[noreturn]] void fail(const std::string& why) const;

 private:
  int64_t take(std::optional<int64_t>& option, int64_t otherwise, std::string_view what) const;
  std::string model_;
  ModelOptions options_;  // those that were not asked for yet
};

// A model of one input, called "input", whose only output is measured against "labels".
using ObjectiveOfOne = std::function<Objective(Tensor answer, Tensor labels)>;
ModelSpec make_spec(const ModelSettings& settings, Layer forward, const TensorType& input, const TensorType& labels,
                    ObjectiveOfOne objective);

// A classifier of images [B, channels, size, size].
struct ImageSizes {
  int64_t size, channels, classes;
};
ImageSizes image_sizes(ModelSettings& settings, ImageSizes otherwise);
ModelSpec image_classifier(const ModelSettings& settings, const ImageSizes& sizes, int64_t batch, Layer forward);

// Mean cross-entropy of logits [..., classes] against class numbers, and the accuracy.
Objective classes_objective(Tensor logits, Tensor labels);

ModelSpec mlp(ModelSettings& settings);
ModelSpec dense_chain(ModelSettings& settings);
ModelSpec lenet(ModelSettings& settings);
ModelSpec fashion(ModelSettings& settings);
ModelSpec siamese(ModelSettings& settings);
ModelSpec resnet18(ModelSettings& settings);
ModelSpec resnet50(ModelSettings& settings);
ModelSpec mobilenet_v2(ModelSettings& settings);
ModelSpec vgg16(ModelSettings& settings);
ModelSpec unet(ModelSettings& settings);
ModelSpec bert_base(ModelSettings& settings);
ModelSpec gpt2_small(ModelSettings& settings);
ModelSpec gpt2_medium(ModelSettings& settings);
ModelSpec gpt2_large(ModelSettings& settings);
ModelSpec gpt2_xl(ModelSettings& settings);

}  // namespace plimsoll::model
