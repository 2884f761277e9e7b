// lenet: LeNet-5 with relu and max pooling. fashion: a small net that does well on Fashion-MNIST in a few epochs.
#include "model/families.h"

namespace plimsoll::model {

ModelSpec lenet(ModelSettings& settings) {
  const ImageSizes sizes = image_sizes(settings, {28, 1, 10});
  return image_classifier(settings, sizes, 128, [=](Tensor x, bool) {
    x = layers::conv2d(x, 6, 5, {.padding = "same", .activation = "relu"}, "conv1");
    x = layers::max_pool(x, 2, {}, "pool1");
    x = layers::conv2d(x, 16, 5, {.activation = "relu"}, "conv2");
    x = layers::max_pool(x, 2, {}, "pool2");
    x = layers::flatten(x);
    x = layers::dense(x, 120, {.activation = "relu"}, "fc1");
    x = layers::dense(x, 84, {.activation = "relu"}, "fc2");
    return layers::dense(x, sizes.classes, {}, "head");
  });
}

ModelSpec fashion(ModelSettings& settings) {
  const ImageSizes sizes = image_sizes(settings, {28, 1, 10});
  const double dropout = settings.dropout(0.25);
  return image_classifier(settings, sizes, 128, [=](Tensor x, bool training) {
    x = layers::conv2d(x, 32, 3, {.padding = "same", .activation = "relu"}, "conv1");
    x = layers::max_pool(x, 2, {}, "pool1");
    x = layers::conv2d(x, 64, 3, {.padding = "same", .activation = "relu"}, "conv2");
    x = layers::max_pool(x, 2, {}, "pool2");
    x = layers::flatten(x);
    x = layers::dropout(x, dropout, training, "dropout1");
    x = layers::dense(x, 256, {.activation = "relu"}, "fc1");
    x = layers::dropout(x, dropout, training, "dropout2");
    return layers::dense(x, sizes.classes, {}, "head");
  });
}

}  // namespace plimsoll::model
