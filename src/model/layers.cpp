#include <plimsoll/layers.h>

#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include "graph/caller.h"

namespace plimsoll::layers {
namespace {

// "." is the scope that is open.
std::string name_or(Graph& graph, Name name, std::string_view kind) {
  if (name == ".") return "";
  return name.empty() ? graph.layer_name(kind) : std::string(name);
}

void expect_image(Tensor x, std::string_view kind, std::string_view name) {
  if (x.rank() == 4) return;
  throw Error(fmt::format("{} '{}': input must be an image [batch, channels, height, width] but is {}", kind, name,
                          to_string(x.type())));
}

void expect_positive(int64_t number, std::string_view what, std::string_view kind, std::string_view name) {
  if (number > 0) return;
  throw Error(fmt::format("{} '{}': {} must be positive but is {}", kind, name, what, number));
}

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

Tensor bias_of(Graph& graph, int64_t count, bool wanted, const Init& init) {
  return wanted ? graph.variable("bias", DType::F32, {count}, init) : Tensor();
}

// Scale and shift, one of each for every channel.
struct Affine {
  Tensor gamma, beta;
};
Affine affine_of(Graph& graph, int64_t count) {
  const Tensor gamma = graph.variable("gamma", DType::F32, {count}, Init::ones());
  return {gamma, graph.variable("beta", DType::F32, {count}, Init::zeros())};
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
  const std::string full = name_or(graph, name, "dense");
  expect_positive(units, "the number of units", "dense", full);
  const Scope scope(graph, full);
  const int64_t width = x.dim(-1).fixed();
  const Tensor kernel =
      graph.variable("kernel", DType::F32, {width, units}, options.kernel.value_or(Init::glorot_uniform(width, units)));
  const Tensor bias = bias_of(graph, units, options.use_bias, options.bias);
  return activation(plimsoll::dense(x, kernel, bias), options.activation);
}

Tensor conv2d(Tensor x, int64_t filters, Size size, const Conv& options, Name name) {
  const graph::Caller caller(name.where());
  Graph& graph = x.graph();
  const std::string full = name_or(graph, name, "conv2d");
  expect_image(x, "conv2d", full);
  expect_positive(filters, "the number of filters", "conv2d", full);
  const int64_t channels = x.dim(1).fixed();
  if (options.groups < 1 || channels % options.groups != 0 || filters % options.groups != 0)
    throw Error(fmt::format("conv2d '{}': {} channels and {} filters can't be split into {} groups", full, channels,
                            filters, options.groups));
  const Scope scope(graph, full);
  const int64_t field = size.height * size.width;
  const int64_t each = channels / options.groups;
  const Tensor kernel = graph.variable("kernel", DType::F32, {filters, each, size.height, size.width},
                                       options.kernel.value_or(Init::glorot_uniform(field * each, field * filters)));
  const Tensor bias = bias_of(graph, filters, options.use_bias, options.bias);
  return activation(plimsoll::conv2d(x, kernel, bias, window_of(x, size, options)), options.activation);
}

Tensor depthwise_conv2d(Tensor x, Size size, const Conv& options, int64_t multiplier, Name name) {
  const graph::Caller caller(name.where());
  const std::string full = name_or(x.graph(), name, "depthwise_conv2d");
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
  const std::string full = name_or(graph, name, "conv2d_transpose");
  expect_image(x, "conv2d_transpose", full);
  expect_positive(filters, "the number of filters", "conv2d_transpose", full);
  const int64_t channels = x.dim(1).fixed();
  if (options.groups < 1 || filters % options.groups != 0)
    throw Error(
        fmt::format("conv2d_transpose '{}': {} filters can't be split into {} groups", full, filters, options.groups));
  const Scope scope(graph, full);
  const int64_t field = size.height * size.width;
  const int64_t each = filters / options.groups;
  const Tensor kernel = graph.variable("kernel", DType::F32, {channels, each, size.height, size.width},
                                       options.kernel.value_or(Init::glorot_uniform(field * each, field * channels)));
  const Tensor bias = bias_of(graph, filters, options.use_bias, options.bias);
  const TransposePads pads = transpose_pads(size, options);
  Conv unpadded = options;
  unpadded.padding = "valid";
  Window window = window_of(x, size, unpadded);
  window.pads = pads.pads;
  return activation(plimsoll::conv2d_transpose(x, kernel, bias, window, pads.output_pads), options.activation);
}

Tensor batch_norm(Tensor x, bool training, const BatchNorm& options, Name name) {
  const graph::Caller caller(name.where());
  Graph& graph = x.graph();
  const Scope scope(graph, name_or(graph, name, "batch_norm"));
  const int64_t channels = x.dim(1).fixed();
  const Affine affine = affine_of(graph, channels);
  const Tensor mean = graph.variable("mean", DType::F32, {channels}, Init::zeros(), VariableRole::Statistic);
  const Tensor variance = graph.variable("variance", DType::F32, {channels}, Init::ones(), VariableRole::Statistic);
  return plimsoll::batch_norm(x, affine.gamma, affine.beta, mean, variance, training, options.momentum, options.epsilon,
                              options.synchronised);
}

Tensor layer_norm(Tensor x, const Norm& options, Name name) {
  const graph::Caller caller(name.where());
  const Scope scope(x.graph(), name_or(x.graph(), name, "layer_norm"));
  const Affine affine = affine_of(x.graph(), x.dim(-1).fixed());
  return plimsoll::layer_norm(x, affine.gamma, affine.beta, options.epsilon);
}

Tensor group_norm(Tensor x, int64_t groups, const Norm& options, Name name) {
  const graph::Caller caller(name.where());
  const Scope scope(x.graph(), name_or(x.graph(), name, "group_norm"));
  const Affine affine = affine_of(x.graph(), x.dim(1).fixed());
  return plimsoll::group_norm(x, affine.gamma, affine.beta, groups, options.epsilon);
}

Tensor dropout(Tensor x, double rate, bool training, Name name) {
  const graph::Caller caller(name.where());
  const std::string full = name_or(x.graph(), name, "dropout");
  if (!(rate >= 0 && rate <= 1))
    throw Error(fmt::format("dropout '{}': the rate must be between 0 and 1 but is {}", full, rate));
  return training && rate > 0 ? plimsoll::dropout(x, rate, full) : x;
}

Tensor embedding(Tensor x, int64_t rows, int64_t width, const Init& table, Name name) {
  const graph::Caller caller(name.where());
  Graph& graph = x.graph();
  const Scope scope(graph, name_or(graph, name, "embedding"));
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

Tensor global_average_pool(Tensor x, Name name) {
  const graph::Caller caller(name.where());
  expect_image(x, "global_average_pool", name);
  return plimsoll::flatten(plimsoll::global_average_pool(x, name));
}

Tensor flatten(Tensor x, Name name) { return plimsoll::flatten(x, 1, name); }
Tensor add(Tensor a, Tensor b, Name name) { return plimsoll::add(a, b, name); }
Tensor concatenate(const std::vector<Tensor>& parts, int axis, Name name) { return concat(parts, axis, name); }

struct NamedActivation {
  std::string_view name;
  Tensor (*apply)(Tensor x, Name name);
};
constexpr NamedActivation kActivations[] = {
    {"relu", relu},
    {"relu6", relu6},
    {"leaky_relu", [](Tensor x, Name name) { return leaky_relu(x, 0.3, name); }},
    {"sigmoid", sigmoid},
    {"tanh", plimsoll::tanh},
    {"gelu", [](Tensor x, Name name) { return gelu(x, false, name); }},
    {"gelu_tanh", [](Tensor x, Name name) { return gelu(x, true, name); }},
    {"quick_gelu", [](Tensor x, Name name) { return mul(x, sigmoid(scale(x, 1.702)), name); }},
    {"silu", silu},
    {"swish", silu},
    {"softmax", [](Tensor x, Name name) { return softmax(x, -1, name); }},
    {"log_softmax", [](Tensor x, Name name) { return log_softmax(x, -1, name); }},
    {"sparsemax", [](Tensor x, Name name) { return sparsemax(x, -1, name); }},
    {"elu", [](Tensor x, Name name) { return elu(x, 1, name); }},
    {"selu", selu},
    {"celu", [](Tensor x, Name name) { return celu(x, 1, name); }},
    {"softplus", softplus},
    {"softsign", softsign},
    {"log_sigmoid", log_sigmoid},
    {"mish", mish},
    {"exponential", plimsoll::exp},
    {"hard_sigmoid", [](Tensor x, Name name) { return hard_sigmoid(x, 1.0 / 6, 0.5, name); }},
    {"hard_silu", hard_swish},
    {"hard_swish", hard_swish},
    {"hard_tanh", hard_tanh},
    {"hard_shrink", [](Tensor x, Name name) { return hard_shrink(x, 0.5, name); }},
    {"soft_shrink", [](Tensor x, Name name) { return soft_shrink(x, 0.5, name); }},
    {"tanh_shrink", tanh_shrink},
    {"squareplus", [](Tensor x, Name name) { return squareplus(x, 4, name); }},
    {"sparse_plus", sparse_plus},
    {"sparse_sigmoid", sparse_sigmoid},
    {"glu", [](Tensor x, Name name) { return glu(x, -1, name); }},
};

Tensor activation(Tensor x, std::string_view kind, Name name) {
  const graph::Caller caller(name.where());
  if (kind.empty() || kind == "linear") return x;
  std::string known;
  for (const NamedActivation& named : kActivations) {
    if (named.name == kind) return named.apply(x, name);
    known += fmt::format("{}, ", named.name);
  }
  throw Error(fmt::format("activation '{}' is unknown; known are {}linear", kind, known));
}

}  // namespace plimsoll::layers
