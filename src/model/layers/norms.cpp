// Norms with weights of their own, and norms of kernels.
#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include "graph/caller.h"
#include "model/layers/parts.h"

namespace plimsoll::layers {
namespace {

// Scale and shift, one of each for every channel.
struct Affine {
  Tensor gamma, beta;
};
Affine affine_of(Graph& graph, int64_t count) {
  const Tensor gamma = graph.variable("gamma", DType::F32, {count}, Init::ones());
  return {gamma, graph.variable("beta", DType::F32, {count}, Init::zeros())};
}

}  // namespace

Tensor batch_norm(Tensor x, bool training, const BatchNorm& options, Name name) {
  const graph::Caller caller(name.where());
  Graph& graph = x.graph();
  const Scope scope(graph, model::layer_name_or(graph, name, "batch_norm"));
  const int64_t channels = x.dim(1).fixed();
  const Affine affine = affine_of(graph, channels);
  const Tensor mean = graph.variable("mean", DType::F32, {channels}, Init::zeros(), VariableRole::Statistic);
  const Tensor variance = graph.variable("variance", DType::F32, {channels}, Init::ones(), VariableRole::Statistic);
  return plimsoll::batch_norm(x, affine.gamma, affine.beta, mean, variance, training, options.momentum, options.epsilon,
                              options.synchronised);
}

Tensor layer_norm(Tensor x, const Norm& options, Name name) {
  const graph::Caller caller(name.where());
  const Scope scope(x.graph(), model::layer_name_or(x.graph(), name, "layer_norm"));
  const Affine affine = affine_of(x.graph(), x.dim(-1).fixed());
  return plimsoll::layer_norm(x, affine.gamma, affine.beta, options.epsilon);
}

Tensor group_norm(Tensor x, int64_t groups, const Norm& options, Name name) {
  const graph::Caller caller(name.where());
  const Scope scope(x.graph(), model::layer_name_or(x.graph(), name, "group_norm"));
  const Affine affine = affine_of(x.graph(), x.dim(1).fixed());
  return plimsoll::group_norm(x, affine.gamma, affine.beta, groups, options.epsilon);
}

Tensor instance_norm(Tensor x, const Norm& options, Name name) {
  const graph::Caller caller(name.where());
  const Scope scope(x.graph(), model::layer_name_or(x.graph(), name, "instance_norm"));
  const Affine affine = affine_of(x.graph(), x.dim(1).fixed());
  return plimsoll::instance_norm(x, affine.gamma, affine.beta, options.epsilon);
}

Tensor rms_norm(Tensor x, double epsilon, Name name) {
  const graph::Caller caller(name.where());
  const Scope scope(x.graph(), model::layer_name_or(x.graph(), name, "rms_norm"));
  const Tensor gamma = x.graph().variable("gamma", DType::F32, {x.dim(-1).fixed()}, Init::ones());
  return plimsoll::rms_norm(x, gamma, epsilon);
}

Tensor unit_norm(Tensor x, int axis, Name name) {
  const graph::Caller caller(name.where());
  const int64_t at = axis < 0 ? axis + x.rank() : axis;
  const Tensor squares = reduce_sum(square(x), {at}, true);
  return mul(x, rsqrt(plimsoll::maximum(squares, x.graph().scalar(1e-12F))), name);
}

Tensor spectral_norm(Tensor kernel, int64_t iterations, Name name) {
  const graph::Caller caller(name.where());
  if (kernel.rank() < 2)
    throw Error(fmt::format("spectral_norm: {} is no matrix and no filter", to_string(kernel.type())));
  model::expect_positive(iterations, "the number of iterations", "spectral_norm", name);
  const int64_t rows = kernel.dim(0).fixed(), columns = (element_count(kernel.shape()) / rows).fixed();
  // The vectors are found without a gradient, as in PyTorch and Keras; each run begins anew, with the same vector.
  const Tensor matrix = plimsoll::reshape(kernel, {rows, columns}), fixed = stop_gradient(matrix);
  std::vector<float> start(static_cast<size_t>(rows));
  for (size_t i = 0; i < start.size(); ++i) start[i] = i % 3 == 0 ? 1.0F : i % 3 == 1 ? 0.5F : -0.25F;
  Tensor left = kernel.graph().constant(DType::F32, {1, rows}, std::as_bytes(std::span(start))), right;
  for (int64_t i = 0; i < iterations; ++i) {
    right = unit_norm(matmul(left, fixed));
    left = unit_norm(matmul(right, fixed, false, true));
  }
  const Tensor largest = reduce_sum(mul(matmul(stop_gradient(left), matrix), stop_gradient(right)));
  return div(kernel, largest, name);
}

Tensor unit_rows(Tensor kernel, Name name) {
  const graph::Caller caller(name.where());
  Dims axes;
  for (int i = 1; i < kernel.rank(); ++i) axes.push_back(i);
  const Tensor squares = reduce_sum(square(kernel), axes, true);
  return mul(kernel, rsqrt(plimsoll::maximum(squares, kernel.graph().scalar(1e-12F))), name);
}

}  // namespace plimsoll::layers
