// Layers to be called later: each keeps its settings and calls the function of the same name.
#include <plimsoll/layers.h>

namespace plimsoll::layers {

Layer dense(int64_t units, const Dense& options, Name name) {
  return [=, label = std::string(name)](Tensor x, bool) { return dense(x, units, options, label); };
}
Layer conv2d(int64_t filters, Size size, const Conv& options, Name name) {
  return [=, label = std::string(name)](Tensor x, bool) { return conv2d(x, filters, size, options, label); };
}
Layer depthwise_conv2d(Size size, const Conv& options, int64_t multiplier, Name name) {
  return
      [=, label = std::string(name)](Tensor x, bool) { return depthwise_conv2d(x, size, options, multiplier, label); };
}
Layer conv2d_transpose(int64_t filters, Size size, const Conv& options, Name name) {
  return [=, label = std::string(name)](Tensor x, bool) { return conv2d_transpose(x, filters, size, options, label); };
}
Layer batch_norm(const BatchNorm& options, Name name) {
  return [=, label = std::string(name)](Tensor x, bool training) { return batch_norm(x, training, options, label); };
}
Layer layer_norm(const Norm& options, Name name) {
  return [=, label = std::string(name)](Tensor x, bool) { return layer_norm(x, options, label); };
}
Layer group_norm(int64_t groups, const Norm& options, Name name) {
  return [=, label = std::string(name)](Tensor x, bool) { return group_norm(x, groups, options, label); };
}
Layer dropout(double rate, Name name) {
  return [=, label = std::string(name)](Tensor x, bool training) { return dropout(x, rate, training, label); };
}
Layer embedding(int64_t rows, int64_t width, const Init& table, Name name) {
  return [=, label = std::string(name)](Tensor x, bool) { return embedding(x, rows, width, table, label); };
}
Layer max_pool(Size size, const Pool& options, Name name) {
  return [=, label = std::string(name)](Tensor x, bool) { return max_pool(x, size, options, label); };
}
Layer average_pool(Size size, const Pool& options, Name name) {
  return [=, label = std::string(name)](Tensor x, bool) { return average_pool(x, size, options, label); };
}
Layer global_average_pool(Name name) {
  return [label = std::string(name)](Tensor x, bool) { return layers::global_average_pool(x, label); };
}
Layer flatten() {
  return [](Tensor x, bool) { return layers::flatten(x); };
}
Layer activation(std::string_view kind, Name name) {
  return [kind = std::string(kind), label = std::string(name)](Tensor x, bool) { return activation(x, kind, label); };
}

}  // namespace plimsoll::layers
