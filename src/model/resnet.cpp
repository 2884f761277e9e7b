// resnet18, and resnet50 with the stride in the 3x3 convolution (v1.5).
#include <array>

#include <fmt/format.h>

#include "model/families.h"

namespace plimsoll::model {
namespace {

// Convolution without bias and batch norm, named conv and bn after `name`: "conv1", "bn1".
Tensor conv_bn(Tensor x, int64_t filters, int64_t size, int64_t stride, bool training, std::string_view name) {
  const int64_t fan_in = x.dim(1).fixed() * size * size;
  x = layers::conv2d(x, filters, size,
                     {.strides = stride, .padding = size / 2, .use_bias = false, .kernel = Init::he_normal(fan_in)},
                     fmt::format("conv{}", name));
  return layers::batch_norm(x, training, {.momentum = 0.9, .epsilon = 1e-5}, fmt::format("bn{}", name));
}

Tensor conv_bn_relu(Tensor x, int64_t filters, int64_t size, int64_t stride, bool training, std::string_view name) {
  return relu(conv_bn(x, filters, size, stride, training, name));
}

Tensor basic(Tensor x, int64_t filters, int64_t stride, bool training) {
  x = conv_bn_relu(x, filters, 3, stride, training, "1");
  return conv_bn(x, filters, 3, 1, training, "2");
}

Tensor bottleneck(Tensor x, int64_t filters, int64_t stride, bool training) {
  x = conv_bn_relu(x, filters, 1, 1, training, "1");
  x = conv_bn_relu(x, filters, 3, stride, training, "2");
  return conv_bn(x, 4 * filters, 1, 1, training, "3");
}

using Block = Tensor (*)(Tensor x, int64_t filters, int64_t stride, bool training);

Tensor residual(Tensor x, Block block, int64_t filters, int64_t stride, bool training) {
  const Tensor y = block(x, filters, stride, training);
  const bool fits = y.shape() == x.shape();
  return relu(add(y, fits ? x : conv_bn(x, y.dim(1).fixed(), 1, stride, training, "_shortcut")));
}

ModelSpec resnet(ModelSettings& settings, Block block, std::array<int, 4> depths) {
  const ImageSizes sizes = image_sizes(settings, {224, 3, 1000});
  return image_classifier(settings, sizes, 32, [=](Tensor x, bool training) {
    x = conv_bn_relu(x, 64, 7, 2, training, "1");
    x = layers::max_pool(x, 3, {.strides = 2, .padding = 1}, "pool1");
    for (int stage = 0; stage < 4; ++stage) {
      for (int i = 0; i < depths[static_cast<size_t>(stage)]; ++i) {
        const Scope scope(x.graph(), fmt::format("stage{}/block{}", stage + 1, i + 1));
        x = residual(x, block, int64_t{64} << stage, stage > 0 && i == 0 ? 2 : 1, training);
      }
    }
    x = layers::global_average_pool(x, "pool");
    return layers::dense(x, sizes.classes, {}, "head");
  });
}

}  // namespace

ModelSpec resnet18(ModelSettings& settings) { return resnet(settings, basic, {2, 2, 2, 2}); }
ModelSpec resnet50(ModelSettings& settings) { return resnet(settings, bottleneck, {3, 4, 6, 3}); }

}  // namespace plimsoll::model
