// mlp: 784-512-512-10. dense-chain: many narrow dense layers, which make a long graph of small tensors.
#include <fmt/format.h>

#include "model/families.h"

namespace plimsoll::model {

ModelSpec mlp(ModelSettings& settings) {
  const ImageSizes sizes = image_sizes(settings, {28, 1, 10});
  const int64_t width = settings.width(512);
  const int64_t hidden = settings.layers(2);
  return image_classifier(settings, sizes, 128, [=](Tensor x, bool) {
    x = layers::flatten(x);
    for (int64_t i = 1; i <= hidden; ++i) x = layers::dense(x, width, {.activation = "relu"}, fmt::format("fc{}", i));
    return layers::dense(x, sizes.classes, {}, "head");
  });
}

ModelSpec dense_chain(ModelSettings& settings) {
  const int64_t width = settings.width(100);
  const int64_t count = settings.layers(5000);
  const Shape shape{Dim::batch(), width};
  const auto forward = [=](Tensor x, bool) {
    for (int64_t i = 0; i < count; ++i) x = layers::dense(x, width, {.activation = "relu"});
    return x;
  };
  ModelSpec spec =
      make_spec(settings, forward, {DType::F32, shape}, {DType::F32, shape}, [](Tensor answer, Tensor target) {
        return Objective{mean_squared_error(answer, target, "loss"), {}};
      });
  spec.batch = 1000;
  return spec;
}

}  // namespace plimsoll::model
