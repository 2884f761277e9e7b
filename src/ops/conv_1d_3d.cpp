// Convolutions and poolings over one and three axes, composed of those over two: a line is an image of height 1; of
// three axes the windows along the depth become channels, or are pooled by themselves.
#include <fmt/format.h>

#include "ops/ops.h"
#include "ops/rearrange.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

[[noreturn]] void fail(std::string_view function, Name name, const std::string& why) {
  throw Error(fmt::format("{} '{}': {}", function, std::string_view(name), why));
}

void expect_line(std::string_view function, Tensor x, Name name) {
  if (x.rank() != 3) fail(function, name, fmt::format("{} must be [batch, channels, length]", to_string(x.type())));
}

// Only what is across counts.
Window of_line(const Window& window) {
  Window line = window;
  line.strides[0] = line.dilations[0] = 1;
  line.pads[0] = line.pads[2] = 0;
  return line;
}

Tensor as_line(Tensor image, Name name) { return squeeze(image, 2, name); }

// Three numbers, or none.
struct Numbers {
  int64_t depth;
  Size2d image;
};
Numbers three(std::string_view function, std::string_view what, const Dims& numbers, int64_t otherwise, Name name) {
  if (numbers.empty()) return {otherwise, {otherwise, otherwise}};
  if (numbers.rank() != 3)
    fail(function, name, fmt::format("{} {} must be three numbers: depth, height, width", what, to_string(numbers)));
  return {numbers[0], {numbers[1], numbers[2]}};
}

void expect_volume(std::string_view function, Tensor x, Name name) {
  if (x.rank() != 5)
    fail(function, name, fmt::format("{} must be [batch, channels, depth, height, width]", to_string(x.type())));
}

Window image_window(const Numbers& strides, const Numbers& pads, const Numbers& dilations, int64_t groups) {
  const auto [down, across] = pads.image;
  return {strides.image, {down, across, down, across}, dilations.image, groups};
}

Tensor with_bias(Tensor y, Tensor bias, Name name) {
  if (!bias.is_set()) return y;
  return add(y, reshape(bias, {bias.dim(0), 1, 1, 1}), name);
}

using Pool = Tensor (*)(Tensor x, Size2d size, const Window& window, bool count_pads);

// First within images, then along the depth.
Tensor pool3d(std::string_view function, Pool pool, Tensor x, const Dims& size, const Dims& strides, const Dims& pads,
              bool count_pads, Name name) {
  expect_volume(function, x, name);
  if (size.rank() != 3 || strides.rank() != 3) fail(function, name, "size and strides must be three numbers");
  const Numbers border = three(function, "pads", pads, 0, name);
  const Shape s = x.shape();
  const auto [down, across] = border.image;
  x = pool(reshape(x, {s[0], s[1] * s[2], s[3], s[4]}), {size[1], size[2]},
           {{strides[1], strides[2]}, {down, across, down, across}, {1, 1}, 1}, count_pads);
  const Dim height = x.dim(2), width = x.dim(3);
  x = pool(reshape(x, {s[0], s[1], s[2], height * width}), {size[0], 1},
           {{strides[0], 1}, {border.depth, 0, border.depth, 0}, {1, 1}, 1}, count_pads);
  return reshape(x, {s[0], s[1], x.dim(2), height, width}, name);
}

std::vector<Sample> samples_conv1d() {
  return {
      {"bias",
       [](SampleBuilder& s) {
         return std::vector{conv1d(s.input({Dim::batch(), 3, 8}), s.input({4, 3, 3}), s.input({4}), Window::padded(1))};
       }},
      {"causal, in groups", [](SampleBuilder& s) {
         return std::vector{
             conv1d(s.input({Dim::batch(), 4, 9}), s.input({4, 1, 3}), {}, {{1, 2}, {0, 4, 0, 0}, {1, 2}, 4})};
       }}};
}
std::vector<Sample> samples_conv1d_transpose() {
  return {{"strided", [](SampleBuilder& s) {
             return std::vector{conv1d_transpose(s.input({Dim::batch(), 3, 5}), s.input({3, 2, 3}), s.input({2}),
                                                 Window::strided(2, 1), 1)};
           }}};
}
std::vector<Sample> samples_pool1d() {
  return {{"strided",
           [](SampleBuilder& s) {
             return std::vector{max_pool1d(s.input({Dim::batch(), 3, 9}, -30, 30), 3, Window::strided(2, 1))};
           }},
          {"mean", [](SampleBuilder& s) {
             return std::vector{average_pool1d(s.input({Dim::batch(), 3, 9}), 3, Window::strided(2, 1))};
           }}};
}
std::vector<Sample> samples_conv3d() {
  return {{"plain",
           [](SampleBuilder& s) {
             return std::vector{conv3d(s.input({Dim::batch(), 2, 4, 5, 3}), s.input({3, 2, 3, 2, 2}), s.input({3}))};
           }},
          {"strides, pads, groups", [](SampleBuilder& s) {
             return std::vector{conv3d(s.input({Dim::batch(), 4, 5, 4, 4}), s.input({4, 2, 2, 3, 3}), {}, {2, 1, 2},
                                       {1, 1, 0}, {2, 1, 1}, 2)};
           }}};
}
std::vector<Sample> samples_conv3d_transpose() {
  return {{"strides", [](SampleBuilder& s) {
             return std::vector{conv3d_transpose(s.input({Dim::batch(), 2, 3, 2, 3}), s.input({2, 3, 3, 2, 2}),
                                                 s.input({3}), {2, 1, 2}, {1, 0, 0}, {1, 0, 1})};
           }}};
}
std::vector<Sample> samples_pool3d() {
  return {
      {"largest",
       [](SampleBuilder& s) {
         return std::vector{max_pool3d(s.input({Dim::batch(), 2, 4, 5, 4}, -30, 30), {2, 3, 2}, {2, 2, 1}, {1, 1, 0})};
       }},
      {"mean", [](SampleBuilder& s) {
         const Tensor x = s.input({Dim::batch(), 2, 4, 5, 4});
         return std::vector{average_pool3d(x, {2, 3, 2}, {1, 2, 2}, {1, 1, 1}),
                            average_pool3d(x, {2, 3, 2}, {1, 2, 2}, {1, 1, 1}, true)};
       }}};
}

const Op kComposed[] = {{.name = "conv1d", .samples = samples_conv1d},
                        {.name = "conv1d_transpose", .samples = samples_conv1d_transpose},
                        {.name = "pool1d", .samples = samples_pool1d},
                        {.name = "conv3d", .samples = samples_conv3d},
                        {.name = "conv3d_transpose", .samples = samples_conv3d_transpose},
                        {.name = "pool3d", .samples = samples_pool3d}};

}  // namespace

Tensor conv1d(Tensor x, Tensor kernel, Tensor bias, const Window& window, Name name) {
  expect_line("conv1d", x, name);
  return as_line(conv2d(expand_dims(x, 2), expand_dims(kernel, 2), bias, of_line(window)), name);
}

Tensor conv1d_transpose(Tensor x, Tensor kernel, Tensor bias, const Window& window, int64_t output_pad, Name name) {
  expect_line("conv1d_transpose", x, name);
  const Tensor image = expand_dims(x, 2);
  return as_line(conv2d_transpose(image, expand_dims(kernel, 2), bias, of_line(window), {0, output_pad}), name);
}

Tensor max_pool1d(Tensor x, int64_t size, const Window& window, Name name) {
  expect_line("max_pool1d", x, name);
  return as_line(max_pool(expand_dims(x, 2), {1, size}, of_line(window)), name);
}

Tensor average_pool1d(Tensor x, int64_t size, const Window& window, bool count_pads, Name name) {
  expect_line("average_pool1d", x, name);
  return as_line(average_pool(expand_dims(x, 2), {1, size}, of_line(window), count_pads), name);
}

Tensor conv3d(Tensor x, Tensor kernel, Tensor bias, Dims strides, Dims pads, Dims dilations, int64_t groups,
              Name name) {
  expect_volume("conv3d", x, name);
  if (kernel.rank() != 5)
    fail("conv3d", name,
         fmt::format("kernel {} must be [outputs, inputs, depth, height, width]", to_string(kernel.type())));
  const Numbers step = three("conv3d", "strides", strides, 1, name), border = three("conv3d", "pads", pads, 0, name);
  const Numbers apart = three("conv3d", "dilations", dilations, 1, name);
  const Dim taps = kernel.dim(2);
  if (border.depth != 0) x = pad(x, {0, 0, border.depth, 0, 0}, {0, 0, border.depth, 0, 0});
  x = windows(x, 2, taps.fixed(), step.depth, apart.depth);
  const Shape s = x.shape(), k = kernel.shape();
  const Dim depth = s[2] / taps.fixed();
  // [batch depth, channels taps, height, width], and the kernel as it lies.
  x = transpose(reshape(x, {s[0], s[1], depth, taps, s[3], s[4]}), {0, 2, 1, 3, 4, 5});
  x = reshape(x, {s[0] * depth, s[1] * taps, s[3], s[4]});
  const Tensor y =
      conv2d(x, reshape(kernel, {k[0], k[1] * taps, k[3], k[4]}), {}, image_window(step, border, apart, groups));
  const Tensor apart_again = reshape(y, {s[0], depth, y.dim(1), y.dim(2), y.dim(3)});
  return with_bias(transpose(apart_again, {0, 2, 1, 3, 4}), bias, name);
}

Tensor conv3d_transpose(Tensor x, Tensor kernel, Tensor bias, Dims strides, Dims pads, Dims output_pads, int64_t groups,
                        Name name) {
  constexpr std::string_view kFunction = "conv3d_transpose";
  expect_volume(kFunction, x, name);
  if (kernel.rank() != 5)
    fail(kFunction, name,
         fmt::format("kernel {} must be [inputs, outputs, depth, height, width]", to_string(kernel.type())));
  const Numbers step = three(kFunction, "strides", strides, 1, name), border = three(kFunction, "pads", pads, 0, name);
  const Numbers more = three(kFunction, "output_pads", output_pads, 0, name), one = three(kFunction, "", {}, 1, name);
  const Shape s = x.shape(), k = kernel.shape();
  const Dim taps = k[2];
  x = reshape(transpose(x, {0, 2, 1, 3, 4}), {s[0] * s[2], s[1], s[3], s[4]});
  x = conv2d_transpose(x, reshape(kernel, {k[0], k[1] * taps, k[3], k[4]}), {}, image_window(step, border, one, groups),
                       more.image);
  const Dim outputs = x.dim(1) / taps.fixed(), height = x.dim(2), width = x.dim(3);
  // Each step along the depth gave one slice for each tap: those that meet are added.
  x = transpose(reshape(x, {s[0], s[2], outputs, taps, height, width}), {0, 2, 1, 3, 4, 5});
  x = reshape(x, {s[0], outputs, s[2] * taps, height, width});
  const int64_t covered = (s[2].fixed() - 1) * step.depth + taps.fixed();
  x = fold_windows(x, 2, covered, taps.fixed(), step.depth, 1);
  if (more.depth != 0) x = pad(x, {0, 0, 0, 0, 0}, {0, 0, more.depth, 0, 0});
  if (border.depth != 0) x = slice(x, 2, border.depth, covered + more.depth - 2 * border.depth);
  return with_bias(x, bias, name);
}

Tensor max_pool3d(Tensor x, Dims size, Dims strides, Dims pads, Name name) {
  const Pool pool = [](Tensor image, Size2d of, const Window& window, bool) { return max_pool(image, of, window); };
  return pool3d("max_pool3d", pool, x, size, strides, pads, false, name);
}

Tensor average_pool3d(Tensor x, Dims size, Dims strides, Dims pads, bool count_pads, Name name) {
  const Pool pool = [](Tensor image, Size2d of, const Window& window, bool all) {
    return average_pool(image, of, window, all);
  };
  return pool3d("average_pool3d", pool, x, size, strides, pads, count_pads, name);
}

OpList conv_1d_3d_ops() {
  OpList all;
  for (const Op& op : kComposed) all.push_back(&op);
  return all;
}

}  // namespace plimsoll::ops
