// vgg16: thirteen 3x3 convolutions and the 4096-4096-1000 classifier.
#include <fmt/format.h>

#include "model/families.h"

namespace plimsoll::model {

ModelSpec vgg16(ModelSettings& settings) {
  const ImageSizes sizes = image_sizes(settings, {224, 3, 1000});
  const int64_t width = settings.width(4096);
  const double dropout = settings.dropout(0.5);
  return image_classifier(settings, sizes, 32, [=](Tensor x, bool training) {
    struct Block {
      int64_t filters, convolutions;
    };
    int block = 0;
    for (const auto [filters, convolutions] : {Block{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}) {
      ++block;
      for (int64_t i = 1; i <= convolutions; ++i) {
        const Init kernel = Init::he_normal(9 * x.dim(1).fixed());
        x = layers::conv2d(x, filters, 3, {.padding = 1, .activation = "relu", .kernel = kernel},
                           fmt::format("conv{}_{}", block, i));
      }
      x = layers::max_pool(x, 2, {}, fmt::format("pool{}", block));
    }
    x = layers::flatten(x);
    for (const int i : {1, 2}) {
      x = layers::dense(x, width, {.activation = "relu"}, fmt::format("fc{}", i));
      x = layers::dropout(x, dropout, training, fmt::format("dropout{}", i));
    }
    return layers::dense(x, sizes.classes, {}, "head");
  });
}

}  // namespace plimsoll::model
