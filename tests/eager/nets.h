// Small nets as eager code calls them.
#pragma once

#include <plimsoll/layers.h>
#include <plimsoll/ops.h>

namespace plimsoll::eager {

inline Tensor residual_net(Tensor x, bool training) {
  const auto block = [&](const Tensor& in, int64_t filters, std::string_view name) {
    const Scope scope(in.graph(), name);
    Tensor y = relu(
        layers::batch_norm(layers::conv2d(in, filters, 3, {.padding = 1, .use_bias = false}, "a"), training, {}, "an"));
    y = layers::batch_norm(layers::conv2d(y, filters, 3, {.padding = 1, .use_bias = false}, "b"), training, {}, "bn");
    return relu(y + in);
  };
  x = relu(layers::conv2d(x, 16, 3, {.padding = 1}, "stem"));
  for (const char* name : {"one", "two", "three", "four", "five", "six"}) x = block(x, 16, name);
  return layers::dense(layers::global_average_pool(x), 10, {}, "head");
}

inline Tensor transformer(Tensor x) {
  for (const char* name : {"one", "two", "three", "four"}) {
    const Scope scope(x.graph(), name);
    x = x + layers::multi_head_attention(layers::layer_norm(x, {}, "n1"), 4, {}, "attention");
    x = x + layers::dense(gelu(layers::dense(layers::layer_norm(x, {}, "n2"), 256, {}, "up")), 64, {}, "down");
  }
  return layers::dense(reduce_mean(x, {1}), 10, {}, "head");
}

}  // namespace plimsoll::eager
