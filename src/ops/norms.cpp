// rms_norm, instance_norm, local_response_norm: composed of other operators.
#include <fmt/format.h>

#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

std::vector<Sample> samples_rms() {
  return {{"rows",
           [](SampleBuilder& s) {
             return std::vector{rms_norm(s.input({Dim::batch(), 3, 7}), s.input({7}))};
           }},
          {"large epsilon", [](SampleBuilder& s) {
             return std::vector{rms_norm(s.input({Dim::batch(), 5}), s.input({5}), 0.5)};
           }}};
}
std::vector<Sample> samples_instance() {
  return {{"images", [](SampleBuilder& s) {
             return std::vector{instance_norm(s.input({Dim::batch(), 3, 4, 5}), s.input({3}), s.input({3}), 1e-2)};
           }}};
}
std::vector<Sample> samples_response() {
  return {{"odd",
           [](SampleBuilder& s) {
             return std::vector{local_response_norm(s.input({Dim::batch(), 5, 2, 3}, -3, 3), 3, 0.5)};
           }},
          {"even", [](SampleBuilder& s) {
             return std::vector{local_response_norm(s.input({Dim::batch(), 5, 4}, -3, 3), 4, 0.3, 0.5, 2)};
           }}};
}

const Op kComposed[] = {{.name = "rms_norm", .samples = samples_rms},
                        {.name = "instance_norm", .samples = samples_instance},
                        {.name = "local_response_norm", .samples = samples_response}};

}  // namespace

Tensor rms_norm(Tensor x, Tensor gamma, double epsilon, Name name) {
  const Tensor inverse = rsqrt(scale(reduce_mean(square(x), {-1}, true), 1, epsilon));
  return mul(mul(x, inverse), gamma, name);
}

Tensor instance_norm(Tensor x, Tensor gamma, Tensor beta, double epsilon, Name name) {
  if (x.rank() < 3)
    throw Error(fmt::format("instance_norm '{}': {} must be [batch, channels, ...]", std::string_view(name),
                            to_string(x.type())));
  return group_norm(x, gamma, beta, x.dim(1).fixed(), epsilon, name);
}

// The channels of all pixels as the rows of one image, whose means are those of a pooling.
Tensor local_response_norm(Tensor x, int64_t size, double alpha, double beta, double offset, Name name) {
  if (x.rank() < 3 || size < 1)
    throw Error(fmt::format("local_response_norm '{}': {} must be [batch, channels, ...], and {} channels be 1 or more",
                            std::string_view(name), to_string(x.type()), size));
  const Shape shape = x.shape();
  const Dim pixels = element_count(shape) / (shape[0] * shape[1]).count();
  Window window;
  window.pads = {(size - 1) / 2, 0, size / 2, 0};
  const Tensor rows = reshape(square(x), {shape[0], 1, shape[1], pixels.count()});
  const Tensor mean = reshape(average_pool(rows, {size, 1}, window, true), shape);
  return mul(x, pow(scale(mean, alpha, offset), x.graph().scalar(static_cast<float>(-beta))), name);
}

OpList norms_ops() {
  OpList all;
  for (const Op& op : kComposed) all.push_back(&op);
  return all;
}

}  // namespace plimsoll::ops
