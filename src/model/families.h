// What the files of the model families share. Each gives makers; zoo.cpp lists them.
#pragma once

#include "model/zoo.h"

namespace plimsoll::families {

// The options of one model, asked for with their defaults.
class Settings {
 public:
  Settings(std::string_view model, const ModelOptions& options) : model_(model), options_(options) {}

  int64_t image_size(int64_t otherwise) { return take(options_.image_size, otherwise, "image size"); }
  int64_t channels(int64_t otherwise) { return take(options_.channels, otherwise, "channels"); }
  int64_t classes(int64_t otherwise) { return take(options_.classes, otherwise, "classes"); }
  int64_t sequence(int64_t otherwise) { return take(options_.sequence, otherwise, "sequence length"); }
  int64_t layers(int64_t otherwise) { return take(options_.layers, otherwise, "layers"); }
  int64_t width(int64_t otherwise) { return take(options_.width, otherwise, "width"); }
  double dropout(double otherwise);

  // Throws Error when an option was given that nobody asked for.
  void expect_all_taken() const;
  const std::string& model() const { return model_; }
  [[noreturn]] void fail(const std::string& why) const;

 private:
  int64_t take(std::optional<int64_t>& option, int64_t otherwise, std::string_view what) const;
  std::string model_;
  ModelOptions options_;  // what has been asked for is taken out
};

// A classifier of images [B, channels, size, size].
struct ImageSizes {
  int64_t size, channels, classes;
};
ImageSizes image_sizes(Settings& settings, ImageSizes otherwise);
ModelSpec image_classifier(const Settings& settings, const ImageSizes& sizes, int64_t batch, Layer forward);

// Mean cross-entropy of logits [..., classes] against class numbers, and how many are right.
Verdict judge_classes(Tensor logits, Tensor labels);

ModelSpec mlp(Settings& settings);
ModelSpec dense_chain(Settings& settings);
ModelSpec lenet(Settings& settings);
ModelSpec fashion(Settings& settings);
ModelSpec resnet18(Settings& settings);
ModelSpec resnet50(Settings& settings);
ModelSpec mobilenet_v2(Settings& settings);
ModelSpec vgg16(Settings& settings);
ModelSpec unet(Settings& settings);
ModelSpec bert_base(Settings& settings);
ModelSpec gpt2_small(Settings& settings);
ModelSpec gpt2_medium(Settings& settings);
ModelSpec gpt2_large(Settings& settings);
ModelSpec gpt2_xl(Settings& settings);

}  // namespace plimsoll::families
