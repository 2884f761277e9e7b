// Products, convolutions and pools of images, attention.
#include <plimsoll/layers.h>

#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include "graph/caller.h"
#include "model/layers/parts.h"

namespace plimsoll::layers {
namespace {

using model::add_bias;
using model::add_kernel;
using model::expect_positive;

void expect_image(Tensor x, std::string_view kind, std::string_view name) { model::expect_axes(x, 2, kind, name); }

Window window_of(Tensor x, Size size, const Conv& options) {
  Window window;
  window.strides = {options.strides.height, options.strides.width};
  window.dilations = {options.dilations.height, options.dilations.width};
  window.groups = options.groups;
  window.pads = options.padding.is_same()
                    ? same_pads({x.dim(2).fixed(), x.dim(3).fixed()}, {size.height, size.width}, window)
                    : options.padding.pads();
  return window;
}

Window pool_window(Tensor x, Size size, const Pool& options) {
  return window_of(x, size, {.strides = options.strides.value_or(size), .padding = options.padding});
}

// The pads that make size x stride outputs ("same"), or all that the kernel reaches; Keras' rule.
struct TransposePads {
  std::array<int64_t, 4> pads{};
  std::array<int64_t, 2> output_pads{};
};
TransposePads transpose_pads(Size size, const Conv& options) {
  TransposePads result;
  const bool is_same = options.padding.is_same();
  if (!is_same) result.pads = options.padding.pads();
  const bool is_explicit = result.pads != std::array<int64_t, 4>{};
  const std::array<int64_t, 2> stride{options.strides.height, options.strides.width};
  const std::array<int64_t, 2> reach{(size.height - 1) * options.dilations.height + 1,
                                     (size.width - 1) * options.dilations.width + 1};
  for (size_t i = 0; i < 2; ++i) {
    const int64_t excess = reach[i] - stride[i];
    if (is_same && excess > 0) {
      result.pads[i] = excess / 2;
      result.pads[i + 2] = excess - excess / 2;
    }
    if (!is_explicit) result.output_pads[i] = std::max<int64_t>(0, -excess);
  }
  return result;
}

}  // namespace

Padding::Padding(std::string_view kind) : is_same_(kind == "same") {
  if (kind != "same" && kind != "valid")
    throw Error(fmt::format("padding can't be '{}'; write \"same\", \"valid\", or the pads as numbers", kind));
}

Tensor dense(Tensor x, int64_t units, const Dense& options, Name name) {
  const graph::Caller caller(name.where());
  Graph& graph = x.graph();
  const std::string full = model::layer_name_or(graph, name, "dense");
  expect_positive(units, "the number of units", "dense", full);
  const Scope scope(graph, full);
  const int64_t width = x.dim(-1).fixed();
  const Tensor kernel = add_kernel(graph, {width, units}, Init::glorot_uniform(width, units), options);
  const Tensor bias = add_bias(graph, {units}, options);
  return activation(plimsoll::dense(x, kernel, bias), options.activation);
}

Tensor einsum_dense(Tensor x, std::string_view equation, Dims kernel, Dims bias, const Dense& options, Name name) {
  const graph::Caller caller(name.where());
  Graph& graph = x.graph();
  const std::string full = model::layer_name_or(graph, name, "einsum_dense");
  for (const int64_t each : kernel) expect_positive(each, "a size of the kernel", "einsum_dense", full);
  const Scope scope(graph, full);
  const Tensor weight = add_kernel(graph, Shape::from(kernel), Init::glorot_uniform(), options);
  const Tensor y = einsum(equation, {x, weight});
  if (bias.empty()) return activation(y, options.activation);
  return activation(plimsoll::add(y, add_bias(graph, Shape::from(bias), options)), options.activation);
}

Tensor conv2d(Tensor x, int64_t filters, Size size, const Conv& options, Name name) {
  const graph::Caller caller(name.where());
  Graph& graph = x.graph();
  const std::string full = model::layer_name_or(graph, name, "conv2d");
  expect_image(x, "conv2d", full);
  expect_positive(filters, "the number of filters", "conv2d", full);
  const int64_t channels = x.dim(1).fixed();
  if (options.groups < 1 || channels % options.groups != 0 || filters % options.groups != 0)
    throw Error(fmt::format("conv2d '{}': {} channels and {} filters can't be split into {} groups", full, channels,
                            filters, options.groups));
  const Scope scope(graph, full);
  const int64_t field = size.height * size.width;
  const int64_t each = channels / options.groups;
  const Tensor kernel = add_kernel(graph, {filters, each, size.height, size.width},
                                   Init::glorot_uniform(field * each, field * filters), options);
  const Tensor bias = add_bias(graph, {filters}, options);
  return activation(plimsoll::conv2d(x, kernel, bias, window_of(x, size, options)), options.activation);
}

Tensor depthwise_conv2d(Tensor x, Size size, const Conv& options, int64_t multiplier, Name name) {
  const graph::Caller caller(name.where());
  const std::string full = model::layer_name_or(x.graph(), name, "depthwise_conv2d");
  expect_image(x, "depthwise_conv2d", full);
  const int64_t channels = x.dim(1).fixed();
  const int64_t field = size.height * size.width;
  Conv grouped = options;
  grouped.groups = channels;
  if (!grouped.kernel) grouped.kernel = Init::glorot_uniform(field * channels, field * multiplier);
  return conv2d(x, channels * multiplier, size, grouped, full);
}

Tensor conv2d_transpose(Tensor x, int64_t filters, Size size, const Conv& options, Name name) {
  const graph::Caller caller(name.where());
  Graph& graph = x.graph();
  const std::string full = model::layer_name_or(graph, name, "conv2d_transpose");
  expect_image(x, "conv2d_transpose", full);
  expect_positive(filters, "the number of filters", "conv2d_transpose", full);
  const int64_t channels = x.dim(1).fixed();
  if (options.groups < 1 || filters % options.groups != 0)
    throw Error(
        fmt::format("conv2d_transpose '{}': {} filters can't be split into {} groups", full, filters, options.groups));
  const Scope scope(graph, full);
  const int64_t field = size.height * size.width;
  const int64_t each = filters / options.groups;
  const Tensor kernel = add_kernel(graph, {channels, each, size.height, size.width},
                                   Init::glorot_uniform(field * each, field * channels), options);
  const Tensor bias = add_bias(graph, {filters}, options);
  const TransposePads pads = transpose_pads(size, options);
  Conv unpadded = options;
  unpadded.padding = "valid";
  Window window = window_of(x, size, unpadded);
  window.pads = pads.pads;
  return activation(plimsoll::conv2d_transpose(x, kernel, bias, window, pads.output_pads), options.activation);
}

Tensor embedding(Tensor x, int64_t rows, int64_t width, const Init& table, Name name) {
  const graph::Caller caller(name.where());
  Graph& graph = x.graph();
  const Scope scope(graph, model::layer_name_or(graph, name, "embedding"));
  return gather(graph.variable("table", DType::F32, {rows, width}, table), x);
}

Tensor max_pool(Tensor x, Size size, const Pool& options, Name name) {
  const graph::Caller caller(name.where());
  expect_image(x, "max_pool", name);
  return plimsoll::max_pool(x, {size.height, size.width}, pool_window(x, size, options), name);
}

Tensor average_pool(Tensor x, Size size, const Pool& options, Name name) {
  const graph::Caller caller(name.where());
  expect_image(x, "average_pool", name);
  return plimsoll::average_pool(x, {size.height, size.width}, pool_window(x, size, options), false, name);
}

}  // namespace plimsoll::layers
