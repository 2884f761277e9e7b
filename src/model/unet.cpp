// unet: a class for each pixel; down by max pooling, up by transposed convolutions, with skips between equal sizes.
#include <vector>

#include <fmt/format.h>

#include "model/families.h"

namespace plimsoll::model {
namespace {

Tensor two_convolutions(Tensor x, int64_t filters) {
  for (const int i : {1, 2}) {
    const Init kernel = Init::he_normal(9 * x.dim(1).fixed());
    x = layers::conv2d(x, filters, 3, {.padding = "same", .activation = "relu", .kernel = kernel},
                       fmt::format("conv{}", i));
  }
  return x;
}

// Moves class scores to the last dimension, where cross-entropy expects them.
Tensor classes_last(Tensor x) { return transpose(x, {0, 2, 3, 1}); }

}  // namespace

ModelSpec unet(ModelSettings& settings) {
  const ImageSizes sizes = image_sizes(settings, {256, 3, 2});
  const int64_t width = settings.width(64);
  const int64_t depth = settings.layers(4);
  if (depth > 16 || sizes.size % (int64_t{1} << depth) != 0)
    settings.fail(fmt::format("the image is halved {} times, so its size can't be {}", depth, sizes.size));
  ModelSpec spec = image_classifier(settings, sizes, 8, [=](Tensor x, bool) {
    Graph& graph = x.graph();
    std::vector<Tensor> skips;
    for (int64_t level = 0; level < depth; ++level) {
      const Scope scope(graph, fmt::format("down{}", level + 1));
      skips.push_back(two_convolutions(x, width << level));
      x = layers::max_pool(skips.back(), 2, {}, "pool");
    }
    {
      const Scope scope(graph, "bottom");
      x = two_convolutions(x, width << depth);
    }
    for (int64_t level = depth - 1; level >= 0; --level) {
      const Scope scope(graph, fmt::format("up{}", level + 1));
      x = layers::conv2d_transpose(x, width << level, 2, {.strides = 2}, "up");
      x = layers::concatenate({skips[static_cast<size_t>(level)], x}, 1);
      x = two_convolutions(x, width << level);
    }
    return classes_last(layers::conv2d(x, sizes.classes, 1, {}, "head"));
  });
  spec.targets[0].type = {DType::I32, {Dim::batch(), sizes.size, sizes.size}};
  return spec;
}

}  // namespace plimsoll::model
