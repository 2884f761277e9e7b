// Convolutions of lines and volumes, separable ones, and their transposes.
#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include "graph/caller.h"
#include "model/layers/parts.h"

namespace plimsoll::layers {
namespace {

using model::fail_layer;

// What pads make ceil(size / stride) outputs, before and after each axis ("same"), or all before ("causal").
struct EdgePads {
  Dims before, after;
  bool is_even() const { return before == after; }
};

EdgePads edge_pads(Tensor x, const Dims& size, const Dims& strides, const Dims& dilations, std::string_view padding,
                   std::string_view kind, std::string_view name) {
  EdgePads pads{Dims::filled(size.rank(), 0), Dims::filled(size.rank(), 0)};
  if (padding == "valid") return pads;
  const bool is_causal = padding == "causal" && size.rank() == 1;
  if (padding != "same" && !is_causal)
    fail_layer(kind, name,
               fmt::format("padding can't be '{}'; write \"same\" or \"valid\"{}", padding,
                           size.rank() == 1 ? ", or \"causal\"" : ""));
  for (int axis = 0; axis < size.rank(); ++axis) {
    const int64_t length = x.dim(2 + axis).fixed(), reach = (size[axis] - 1) * dilations[axis] + 1;
    const int64_t outputs = (length + strides[axis] - 1) / strides[axis];
    const int64_t all = std::max<int64_t>(0, (outputs - 1) * strides[axis] + reach - length);
    pads.before[axis] = is_causal ? reach - 1 : all / 2;
    pads.after[axis] = is_causal ? 0 : all - all / 2;
  }
  return pads;
}

Tensor pad_edges(Tensor x, const EdgePads& pads, double value) {
  Dims before{0, 0}, after{0, 0};
  for (const int64_t each : pads.before) before.push_back(each);
  for (const int64_t each : pads.after) after.push_back(each);
  return pad(x, before, after, value);
}

// The settings of one call, with a number for each axis.
struct Form {
  Dims size, strides, dilations;
  int64_t field;
};

Form form_of(Tensor x, const Dims& size, const ConvNd& options, int axes, std::string_view kind,
             std::string_view name) {
  model::expect_axes(x, axes, kind, name);
  Form form{model::numbers_for(size, axes, 1, "the sizes", kind, name),
            model::numbers_for(options.strides, axes, 1, "the strides", kind, name),
            model::numbers_for(options.dilations, axes, 1, "the dilations", kind, name), 1};
  for (const Dims& each : {form.size, form.strides, form.dilations})
    for (const int64_t number : each) model::expect_positive(number, "a size, stride or dilation", kind, name);
  for (const int64_t each : form.size) form.field *= each;
  return form;
}

void expect_groups(int64_t channels, int64_t filters, int64_t groups, std::string_view kind, std::string_view name) {
  model::expect_positive(filters, "the number of filters", kind, name);
  if (groups < 1 || channels % groups != 0 || filters % groups != 0)
    fail_layer(kind, name,
               fmt::format("{} channels and {} filters can't be split into {} groups", channels, filters, groups));
}

Shape kernel_shape(int64_t first, int64_t second, const Dims& size) {
  Shape shape{first, second};
  for (const int64_t each : size) shape.push_back(each);
  return shape;
}

Tensor convolve(Tensor x, int64_t filters, const Dims& size, const ConvNd& options, int axes, const Name& name) {
  const std::string_view kind = axes == 1 ? "conv1d" : "conv3d";
  Graph& graph = x.graph();
  const std::string full = model::layer_name_or(graph, name, kind);
  const Form form = form_of(x, size, options, axes, kind, full);
  const int64_t channels = x.dim(1).fixed();
  expect_groups(channels, filters, options.groups, kind, full);
  const Scope scope(graph, full);
  const int64_t each = channels / options.groups;
  const Tensor kernel = model::add_kernel(graph, kernel_shape(filters, each, form.size),
                                          Init::glorot_uniform(form.field * each, form.field * filters), options);
  const Tensor bias = model::add_bias(graph, {filters}, options);
  EdgePads pads = edge_pads(x, form.size, form.strides, form.dilations, options.padding, kind, full);
  if (!pads.is_even()) {
    x = pad_edges(x, pads, 0);
    pads.before = Dims::filled(axes, 0);
  }
  if (axes == 3)
    return activation(plimsoll::conv3d(x, kernel, bias, form.strides, pads.before, form.dilations, options.groups),
                      options.activation);
  const Window window{
      {1, form.strides[0]}, {0, pads.before[0], 0, pads.before[0]}, {1, form.dilations[0]}, options.groups};
  return activation(plimsoll::conv1d(x, kernel, bias, window), options.activation);
}

Tensor convolve_back(Tensor x, int64_t filters, const Dims& size, const ConvNd& options, int axes, const Name& name) {
  const std::string_view kind = axes == 1 ? "conv1d_transpose" : "conv3d_transpose";
  Graph& graph = x.graph();
  const std::string full = model::layer_name_or(graph, name, kind);
  const Form form = form_of(x, size, options, axes, kind, full);
  if (form.dilations != Dims::filled(axes, 1)) fail_layer(kind, full, "dilations must be 1");
  if (options.padding != "valid" && options.padding != "same")
    fail_layer(kind, full, fmt::format("padding can't be '{}'; write \"same\" or \"valid\"", options.padding));
  const int64_t channels = x.dim(1).fixed();
  expect_groups(channels, filters, options.groups, kind, full);
  const Scope scope(graph, full);
  const int64_t each = filters / options.groups;
  const Tensor kernel = model::add_kernel(graph, kernel_shape(channels, each, form.size),
                                          Init::glorot_uniform(form.field * each, form.field * channels), options);
  const Tensor bias = model::add_bias(graph, {filters}, options);
  // Keras: size x stride outputs ("same"), or all that the kernel reaches.
  Dims pads = Dims::filled(axes, 0), more = pads;
  EdgePads cut{pads, pads};
  for (int i = 0; i < axes; ++i) {
    const int64_t excess = form.size[i] - form.strides[i];
    more[i] = std::max<int64_t>(0, -excess);
    if (options.padding != "same" || excess <= 0) continue;
    cut.before[i] = excess / 2;
    cut.after[i] = excess - excess / 2;
  }
  const Window window{{1, form.strides[0]}, {0, cut.before[0], 0, cut.after[0]}, {1, 1}, options.groups};
  if (axes == 1) return activation(plimsoll::conv1d_transpose(x, kernel, bias, window, more[0]), options.activation);
  if (cut.is_even()) pads = cut.before;
  Tensor y = plimsoll::conv3d_transpose(x, kernel, bias, form.strides, pads, more, options.groups);
  for (int i = 0; i < axes && !cut.is_even(); ++i)
    if (const int64_t left = y.dim(2 + i).fixed() - cut.before[i] - cut.after[i]; cut.after[i] > 0)
      y = slice(y, 2 + i, cut.before[i], left);
  return activation(y, options.activation);
}

}  // namespace

Tensor conv1d(Tensor x, int64_t filters, int64_t size, const ConvNd& options, Name name) {
  const graph::Caller caller(name.where());
  return convolve(std::move(x), filters, {size}, options, 1, name);
}

Tensor conv3d(Tensor x, int64_t filters, Dims size, const ConvNd& options, Name name) {
  const graph::Caller caller(name.where());
  return convolve(std::move(x), filters, size, options, 3, name);
}

Tensor conv1d_transpose(Tensor x, int64_t filters, int64_t size, const ConvNd& options, Name name) {
  const graph::Caller caller(name.where());
  return convolve_back(std::move(x), filters, {size}, options, 1, name);
}

Tensor conv3d_transpose(Tensor x, int64_t filters, Dims size, const ConvNd& options, Name name) {
  const graph::Caller caller(name.where());
  return convolve_back(std::move(x), filters, size, options, 3, name);
}

Tensor depthwise_conv1d(Tensor x, int64_t size, const ConvNd& options, int64_t multiplier, Name name) {
  const graph::Caller caller(name.where());
  const std::string full = model::layer_name_or(x.graph(), name, "depthwise_conv1d");
  model::expect_axes(x, 1, "depthwise_conv1d", full);
  model::expect_positive(multiplier, "the multiplier", "depthwise_conv1d", full);
  const int64_t channels = x.dim(1).fixed();
  ConvNd grouped = options;
  grouped.groups = channels;
  if (!grouped.kernel) grouped.kernel = Init::glorot_uniform(size * channels, size * multiplier);
  return conv1d(x, channels * multiplier, size, grouped, full);
}

Tensor separable_conv1d(Tensor x, int64_t filters, int64_t size, const ConvNd& options, int64_t multiplier, Name name) {
  const graph::Caller caller(name.where());
  const Scope scope(x.graph(), model::layer_name_or(x.graph(), name, "separable_conv1d"));
  ConvNd first = options, second = options;
  first.activation = "";
  first.use_bias = false;
  second.strides = second.dilations = {};
  second.padding = "valid";
  return conv1d(depthwise_conv1d(x, size, first, multiplier, "depthwise"), filters, 1, second, "pointwise");
}

Tensor separable_conv2d(Tensor x, int64_t filters, Size size, const Conv& options, int64_t multiplier, Name name) {
  const graph::Caller caller(name.where());
  const Scope scope(x.graph(), model::layer_name_or(x.graph(), name, "separable_conv2d"));
  Conv first = options, second = options;
  first.activation = "";
  first.use_bias = false;
  second.strides = second.dilations = 1;
  second.padding = "valid";
  return conv2d(depthwise_conv2d(x, size, first, multiplier, "depthwise"), filters, 1, second, "pointwise");
}

namespace {

// Of pools: the form of the window, its pads, and x with them where the operator has none that are uneven.
Tensor pool_line(Tensor x, int64_t size, const PoolNd& options, bool takes_largest, const Name& name) {
  const std::string_view kind = takes_largest ? "max_pool1d" : "average_pool1d";
  model::expect_axes(x, 1, kind, name);
  model::expect_positive(size, "the size", kind, name);
  const Dims strides = model::numbers_for(options.strides, 1, size, "the strides", kind, name);
  const EdgePads pads = edge_pads(x, {size}, strides, {1}, options.padding, kind, name);
  const Window window{{1, strides[0]}, {0, pads.before[0], 0, pads.after[0]}, {1, 1}, 1};
  return takes_largest ? plimsoll::max_pool1d(x, size, window, name)
                       : plimsoll::average_pool1d(x, size, window, false, name);
}

Tensor pool_volume(Tensor x, const Dims& given, const PoolNd& options, bool takes_largest, const Name& name) {
  const std::string_view kind = takes_largest ? "max_pool3d" : "average_pool3d";
  model::expect_axes(x, 3, kind, name);
  const Dims size = model::numbers_for(given, 3, 2, "the sizes", kind, name);
  for (const int64_t each : size) model::expect_positive(each, "the size", kind, name);
  Dims strides = size;
  if (!options.strides.empty()) strides = model::numbers_for(options.strides, 3, 1, "the strides", kind, name);
  const EdgePads pads = edge_pads(x, size, strides, {1, 1, 1}, options.padding, kind, name);
  if (takes_largest) {
    if (pads.is_even()) return plimsoll::max_pool3d(x, size, strides, pads.before, name);
    return plimsoll::max_pool3d(pad_edges(x, pads, -INFINITY), size, strides, {}, name);
  }
  if (pads.is_even()) return plimsoll::average_pool3d(x, size, strides, pads.before, false, name);
  // The mean over the window with its padding, over the share of it that is not padding: a number for each place of an
  // axis.
  Tensor y = plimsoll::average_pool3d(pad_edges(x, pads, 0), size, strides, {}, true);
  for (int axis = 0; axis < 3; ++axis) {
    std::vector<float> shares;
    const int64_t length = x.dim(2 + axis).fixed();
    for (int64_t i = 0; i < y.dim(2 + axis).fixed(); ++i) {
      const int64_t first = i * strides[axis] - pads.before[axis];
      const int64_t inside = std::min(length, first + size[axis]) - std::max<int64_t>(0, first);
      shares.push_back(static_cast<float>(size[axis]) / static_cast<float>(inside));
    }
    Shape along{1, 1, 1, 1, 1};
    along[2 + axis] = Dim(static_cast<int64_t>(shares.size()));
    y = mul(y, x.graph().constant(DType::F32, along, std::as_bytes(std::span(shares))));
  }
  return y;
}

}  // namespace

Tensor max_pool1d(Tensor x, int64_t size, const PoolNd& options, Name name) {
  const graph::Caller caller(name.where());
  return pool_line(std::move(x), size, options, true, name);
}
Tensor average_pool1d(Tensor x, int64_t size, const PoolNd& options, Name name) {
  const graph::Caller caller(name.where());
  return pool_line(std::move(x), size, options, false, name);
}
Tensor max_pool3d(Tensor x, Dims size, const PoolNd& options, Name name) {
  const graph::Caller caller(name.where());
  return pool_volume(std::move(x), size, options, true, name);
}
Tensor average_pool3d(Tensor x, Dims size, const PoolNd& options, Name name) {
  const graph::Caller caller(name.where());
  return pool_volume(std::move(x), size, options, false, name);
}

}  // namespace plimsoll::layers
