// siamese: two images, called left and right, through one tower; predicts from the distance of the two outputs whether
// they belong together.
#include <fmt/format.h>

#include "model/families.h"

namespace plimsoll::model {

ModelSpec siamese(ModelSettings& settings) {
  const ImageSizes sizes = image_sizes(settings, {28, 1, 2});
  const int64_t width = settings.width(128);
  const int64_t hidden = settings.layers(2);
  const Model tower("tower", [=](Tensor x, bool) {
    x = layers::flatten(x);
    for (int64_t i = 1; i <= hidden; ++i) x = layers::dense(x, width, {.activation = "relu"}, fmt::format("fc{}", i));
    return x;
  });
  const auto forward = [=](const NamedTensors& images, bool training) {
    const Tensor distance = abs(tower(images["left"], training) - tower(images["right"], training));
    return NamedTensors{{"output", layers::dense(distance, sizes.classes, {}, "head")}};
  };
  const TensorType image{DType::F32, {Dim::batch(), sizes.channels, sizes.size, sizes.size}};
  ModelSpec spec{.model = {settings.model(), {"left", "right"}, {"output"}, forward},
                 .inputs = {{"left", image}, {"right", image}},
                 .targets = {{"labels", {DType::I32, {Dim::batch()}}}},
                 .objective = [](const NamedTensors& outputs, const NamedTensors& targets) {
                   return classes_objective(outputs.only(), targets.only());
                 }};
  spec.metrics = {{"accuracy", 1, Metric::accuracy().value}};
  spec.classes = sizes.classes;
  spec.batch = 128;
  return spec;
}

}  // namespace plimsoll::model
