// mlp: 784-512-512-10. dense-chain: many narrow dense layers, which make a long graph of small tensors.
#include <fmt/format.h>

#include "model/families.h"

namespace plimsoll::families {

ModelSpec mlp(Settings& settings) {
  const ImageSizes sizes = image_sizes(settings, {28, 1, 10});
  const int64_t width = settings.width(512);
  const int64_t hidden = settings.layers(2);
  return image_classifier(settings, sizes, 128, [=](Tensor x, bool) {
    x = layers::flatten(x);
    for (int64_t i = 1; i <= hidden; ++i) x = layers::dense(x, width, {.activation = "relu"}, fmt::format("fc{}", i));
    return layers::dense(x, sizes.classes, {}, "head");
  });
}

ModelSpec dense_chain(Settings& settings) {
  const int64_t width = settings.width(100);
  const int64_t count = settings.layers(5000);
  const Shape shape{Dim::batch(), width};
  return {.model = {settings.model(),
                    [=](Tensor x, bool) {
                      for (int64_t i = 0; i < count; ++i) x = layers::dense(x, width, {.activation = "relu"});
                      return x;
                    }},
          .input = {DType::F32, shape},
          .labels = {DType::F32, shape},
          .classes = 0,
          .batch = 1000,
          .judge = [](Tensor answer, Tensor target) {
            return Verdict{mean_squared_error(answer, target, "loss"), {}};
          }};
}

}  // namespace plimsoll::families
