// What the files of layers share: names, checks, and variables with all that options say of them.
#pragma once

#include <string>
#include <string_view>

#include <plimsoll/layers.h>

namespace plimsoll::model {

std::string layer_name_or(Graph& graph, std::string_view name, std::string_view kind);
[[noreturn]] void fail_layer(std::string_view kind, std::string_view name, const std::string& why);
void expect_positive(int64_t number, std::string_view what, std::string_view kind, std::string_view name);
// [batch, channels, ...] with so many axes behind the channels.
void expect_axes(Tensor x, int axes, std::string_view kind, std::string_view name);
// [batch, channels] and one to three axes; returns how many.
int expect_spatial(Tensor x, std::string_view kind, std::string_view name);
// One number for each axis, from so many, from one that stands for all, or from none.
Dims numbers_for(const Dims& given, int axes, int64_t otherwise, std::string_view what, std::string_view kind,
                 std::string_view name);

// The kernel of a layer in the innermost scope, mapped; and its bias, unset unless wanted.
template <class Options>
Tensor add_kernel(Graph& graph, const Shape& shape, const Init& otherwise, const Options& options) {
  const Tensor kernel = graph.variable("kernel", DType::F32, shape, options.kernel.value_or(otherwise));
  graph.regularise(kernel, options.kernel_regulariser);
  graph.constrain(kernel, options.kernel_constraint);
  return options.kernel_map ? options.kernel_map(kernel) : kernel;
}
template <class Options>
Tensor add_bias(Graph& graph, const Shape& shape, const Options& options) {
  if (!options.use_bias) return {};
  const Tensor bias = graph.variable("bias", DType::F32, shape, options.bias);
  graph.regularise(bias, options.bias_regulariser);
  graph.constrain(bias, options.bias_constraint);
  return bias;
}

}  // namespace plimsoll::model
