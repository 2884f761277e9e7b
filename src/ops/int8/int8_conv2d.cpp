// int8_conv2d: scale (x * kernel) + offset of images u8 and filters i8, by output channel, within limits; f32 or u8.
// int8_dense: the same for rows, x u8[M,K] and kernel i8[N,K].
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "kernels/int8_convolution.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr InputTypes kByteOperands{DType::U8, DType::I8, DType::F32};

DType result_type(const Infer& n) {
  const DType dtype = parse_dtype(n.attrs.s("dtype", "u8"));
  if (dtype != DType::U8 && dtype != DType::F32)
    n.fail(fmt::format("the result must be u8 or f32 but is to be {}", name_of(dtype)));
  const double low = n.attrs.f("low", -kNoLimit), high = n.attrs.f("high", kNoLimit);
  if (!(low <= high)) n.fail(fmt::format("low is {} but high is {}", low, high));
  return dtype;
}

void expect_whole_sums(const Infer& n, int64_t inputs, int64_t points) {
  if (points > kMostByteProducts || inputs > kMostByteProducts / std::max<int64_t>(1, points))
    n.fail(fmt::format("a sum of {} x {} products may pass 32 bits, which hold {}", inputs, points, kMostByteProducts));
}

void expect_number_for_each(const Infer& n, const Dim& channels) {
  for (const size_t i : {2, 3})
    if (!(n.in[i].shape == Shape{channels}))
      n.fail(fmt::format("{} must be f32[{}] but is {}", i == 2 ? "scale" : "offset", to_string(channels),
                         to_string(n.in[i])));
}

void infer_conv2d(Infer& n) {
  n.expect_inputs(4, 4);
  for (const size_t i : {0, 1}) n.expect_rank(i, 4);
  const Shape &x = n.in[0].shape, &kernel = n.in[1].shape;
  const int64_t groups = window_of(n.attrs).groups;
  if (groups < 1 || kernel[1].fixed() * groups != x[1].fixed() || kernel[0].fixed() % groups != 0)
    n.fail(fmt::format("kernel {} does not match {} in {} groups", to_string(n.in[1]), to_string(n.in[0]), groups));
  expect_number_for_each(n, kernel[0]);
  expect_whole_sums(n, kernel[1].fixed(), kernel[2].fixed() * kernel[3].fixed());
  const DType dtype = result_type(n);
  const auto size = output_size(n, {x[2].fixed(), x[3].fixed()}, {kernel[2].fixed(), kernel[3].fixed()});
  n.out = {{dtype, {x[0], kernel[0], size[0], size[1]}}};
}

void infer_dense(Infer& n) {
  n.expect_inputs(4, 4);
  for (const size_t i : {0, 1}) n.expect_rank(i, 2);
  const Shape &x = n.in[0].shape, &kernel = n.in[1].shape;
  if (!(x[1] == kernel[1]))
    n.fail(fmt::format("kernel is {} but rows are {}; its second size must be {}", to_string(n.in[1]),
                       to_string(n.in[0]), to_string(x[1])));
  expect_number_for_each(n, kernel[0]);
  expect_whole_sums(n, kernel[1].fixed(), 1);
  n.out = {{result_type(n), {x[0], kernel[0]}}};
}

ConvolutionSizes int8_sizes(const Facts& facts) {
  return {facts.in[0].dims, facts.in[1].dims, facts.out[0].dims, window_of(facts.attrs)};
}

Cost dense_cost(const Facts& facts) {
  const Dims &x = facts.in[0].dims, &kernel = facts.in[1].dims;
  return cost_of_int8_convolution({{1, x[1], x[0], 1}, {kernel[0], kernel[1], 1, 1}, {1, kernel[0], x[0], 1}, {}});
}

Attrs int8_attrs(Attrs attrs, DType dtype, double low, double high, bool full_range) {
  attrs.set("dtype", std::string(name_of(dtype)));
  if (low > -kNoLimit) attrs.set("low", low);
  if (high < kNoLimit) attrs.set("high", high);
  if (full_range) attrs.set("full_range", int64_t{1});
  return attrs;
}

Sample conv2d_sample(std::string name, const Shape& x, const Shape& kernel, const Window& window, DType dtype,
                     double low = -kNoLimit, double high = kNoLimit) {
  return {std::move(name),
          [=](SampleBuilder& s) {
            const Tensor image = s.integers(x, 0, 256, DType::U8);
            const Tensor filter = s.integers(kernel, -64, 64, DType::I8);
            return std::vector{int8_conv2d(image, filter, s.input({kernel[0]}, 0.001, 0.004),
                                           s.input({kernel[0]}, 60, 90), window, dtype, low, high)};
          },
          1e-4, false};
}

std::vector<Sample> conv2d_samples() {
  const Dim batch = Dim::batch();
  const auto in_groups = [](Window window, int64_t groups) {
    window.groups = groups;
    return window;
  };
  return {
      conv2d_sample("plain", {batch, 3, 4, 5}, {2, 3, 3, 2}, {}, DType::U8),
      conv2d_sample("padded, f32", {batch, 16, 4, 4}, {32, 16, 3, 3}, Window::padded(1), DType::F32),
      conv2d_sample("relu", {batch, 8, 3, 2}, {8, 8, 1, 1}, {}, DType::F32, 0),
      conv2d_sample("relu6", {batch, 5, 3, 2}, {7, 5, 2, 1}, {}, DType::F32, 0, 6),
      conv2d_sample("strided", {batch, 4, 7, 5}, {16, 4, 3, 3}, Window::strided(2, 1), DType::U8),
      conv2d_sample("dilated", {batch, 2, 5, 6}, {3, 2, 2, 3}, {{1, 1}, {1, 1, 1, 1}, {2, 2}, 1}, DType::U8),
      conv2d_sample("one channel", {batch, 1, 5, 4}, {6, 1, 3, 2}, Window::padded(1), DType::U8),
      conv2d_sample("one pixel", {batch, 4, 3, 3}, {5, 4, 3, 3}, {}, DType::U8),
      conv2d_sample("groups", {batch, 4, 3, 3}, {6, 2, 2, 2}, in_groups({}, 2), DType::U8),
      conv2d_sample("blocked groups", {batch, 32, 2, 2}, {32, 16, 1, 1}, in_groups({}, 2), DType::U8),
      conv2d_sample("depthwise", {batch, 16, 3, 3}, {16, 1, 3, 3}, in_groups(Window::padded(1), 16), DType::U8),
      conv2d_sample("odd depthwise", {batch, 5, 4, 3}, {5, 1, 3, 3}, in_groups(Window::strided(2, 1), 5), DType::F32),
      conv2d_sample("depthwise multiplier", {batch, 3, 3, 3}, {6, 1, 2, 2}, in_groups({}, 3), DType::U8)};
}

Sample dense_sample(std::string name, const Shape& x, const Shape& kernel, DType dtype, double low = -kNoLimit,
                    double high = kNoLimit) {
  return {std::move(name),
          [=](SampleBuilder& s) {
            const Tensor rows = s.integers(x, 0, 256, DType::U8);
            const Tensor filter = s.integers(kernel, -64, 64, DType::I8);
            return std::vector{int8_dense(rows, filter, s.input({kernel[0]}, 0.001, 0.004),
                                          s.input({kernel[0]}, 60, 90), dtype, low, high)};
          },
          1e-4, false};
}

std::vector<Sample> dense_samples() {
  return {dense_sample("rows", {Dim::batch(), 13}, {10, 13}, DType::F32),
          dense_sample("to bytes", {Dim::batch(), 64}, {48, 64}, DType::U8),
          dense_sample("relu", {Dim::batch(2), 5}, {3, 5}, DType::F32, 0),
          dense_sample("one row", {1, 20}, {6, 20}, DType::U8)};
}

const Op kInt8Conv2d{.name = "int8_conv2d",
                     .storable = true,
                     .infer = infer_conv2d,
                     .types = kByteOperands,
                     .prepare = [](const Facts& facts) { return prepare_int8_convolution(facts, int8_sizes(facts)); },
                     .cost = [](const Facts& facts) { return cost_of_int8_convolution(int8_sizes(facts)); },
                     .samples = conv2d_samples,
                     .traits = {.batch = BatchRule::Rows, .recomputable = true}};
const Op kInt8Dense{.name = "int8_dense",
                    .storable = true,
                    .infer = infer_dense,
                    .types = kByteOperands,
                    .prepare = prepare_int8_product,
                    .cost = dense_cost,
                    .samples = dense_samples,
                    .traits = {.batch = BatchRule::Rows, .recomputable = true}};

}  // namespace

Tensor int8_conv2d(Tensor x, Tensor kernel, Tensor scale, Tensor offset, const Window& window, DType dtype, double low,
                   double high, bool full_range, Name name) {
  return apply(kInt8Conv2d, {x, kernel, scale, offset}, int8_attrs(attrs_of(window), dtype, low, high, full_range),
               name);
}

Tensor int8_dense(Tensor x, Tensor kernel, Tensor scale, Tensor offset, DType dtype, double low, double high,
                  bool full_range, Name name) {
  return apply(kInt8Dense, {x, kernel, scale, offset}, int8_attrs({}, dtype, low, high, full_range), name);
}

OpList int8_conv2d_ops() { return {&kInt8Conv2d, &kInt8Dense}; }

}  // namespace plimsoll::ops
