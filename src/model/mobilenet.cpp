// mobilenet_v2, width 1.0: inverted residuals with a linear bottleneck.
#include <fmt/format.h>

#include "model/families.h"

namespace plimsoll::model {
namespace {

struct Stage {
  int64_t expansion, filters, blocks, stride;
};
constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                             {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

Tensor norm(Tensor x, bool training, std::string_view name) {
  return layers::batch_norm(x, training, {.momentum = 0.9, .epsilon = 1e-5}, fmt::format("{}_bn", name));
}

Tensor conv_norm(Tensor x, int64_t filters, int64_t size, int64_t stride, bool training, std::string_view name) {
  const layers::Conv options{.strides = stride,
                             .padding = size / 2,
                             .use_bias = false,
                             .kernel = Init::he_normal(x.dim(1).fixed() * size * size)};
  return norm(layers::conv2d(x, filters, size, options, name), training, name);
}

Tensor depthwise_norm(Tensor x, int64_t stride, bool training, std::string_view name) {
  const layers::Conv options{.strides = stride, .padding = 1, .use_bias = false, .kernel = Init::he_normal(9)};
  return norm(layers::depthwise_conv2d(x, 3, options, 1, name), training, name);
}

Tensor inverted_residual(Tensor x, int64_t expansion, int64_t filters, int64_t stride, bool training) {
  const int64_t channels = x.dim(1).fixed();
  Tensor y = x;
  if (expansion != 1) y = relu6(conv_norm(y, channels * expansion, 1, 1, training, "expand"));
  y = relu6(depthwise_norm(y, stride, training, "depthwise"));
  y = conv_norm(y, filters, 1, 1, training, "project");
  return stride == 1 && channels == filters ? add(x, y) : y;
}

}  // namespace

ModelSpec mobilenet_v2(ModelSettings& settings) {
  const ImageSizes sizes = image_sizes(settings, {224, 3, 1000});
  const double dropout = settings.dropout(0.2);
  return image_classifier(settings, sizes, 32, [=](Tensor x, bool training) {
    x = relu6(conv_norm(x, 32, 3, 2, training, "stem"));
    int number = 0;
    for (const Stage& stage : kStages) {
      for (int64_t i = 0; i < stage.blocks; ++i) {
        const Scope scope(x.graph(), fmt::format("block{}", ++number));
        x = inverted_residual(x, stage.expansion, stage.filters, i == 0 ? stage.stride : 1, training);
      }
    }
    x = relu6(conv_norm(x, 1280, 1, 1, training, "last"));
    x = layers::global_average_pool(x, "pool");
    x = layers::dropout(x, dropout, training, "dropout");
    return layers::dense(x, sizes.classes, {}, "head");
  });
}

}  // namespace plimsoll::model
