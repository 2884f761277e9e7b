// int8_max_pool: the largest byte of each window. int8_average_pool: y = saturate(round(scale mean(x - zero) +
// zero_out)).
#include <algorithm>

#include <fmt/format.h>

#include "kernels/int8_convolution.h"
#include "kernels/parallel.h"
#include "kernels/pixel_order.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

std::array<int64_t, 2> pooled_size(const Attrs& attrs) {
  const Dims size = attrs.dims("size");
  if (size.rank() != 2) throw Error("a pooling window needs two sizes");
  return {size[0], size[1]};
}

void infer_int8_pool(Infer& n) {
  n.expect_inputs(1, 1);
  n.expect_rank(0, 4);
  n.expect_positive("scale", 1);
  const Shape& x = n.in[0].shape;
  const auto size = pooled_size(n.attrs);
  const Window window = window_of(n.attrs);
  for (const std::string_view zero : {"zero", "zero_out"})
    if (n.attrs.i(zero) < 0 || n.attrs.i(zero) > 255)
      n.fail(fmt::format("{} must be from 0 to 255 but is {}", zero, n.attrs.i(zero)));
  if (window.dilations != std::array<int64_t, 2>{1, 1} || window.groups != 1) n.fail("takes no dilations or groups");
  if (size[0] > kMostByteProducts || size[1] > kMostByteProducts / std::max<int64_t>(1, size[0]))
    n.fail("the window is too large for sums of 32 bits");
  for (size_t i = 0; i < 4; ++i)
    if (window.pads[i] >= size[i % 2]) n.fail("pads must be smaller than the window");
  const auto out = output_size(n, {x[2].fixed(), x[3].fixed()}, size);
  n.out = {{DType::U8, {x[0], x[1], out[0], out[1]}}};
}

constexpr int64_t kLanes = 64;  // channels that are pooled together

// The rows and columns of the image that a window sees.
struct SeenWindow {
  int64_t top, bottom, left, right;
  int64_t count() const { return (bottom - top) * (right - left); }
};

struct BytePool {
  Dims x, y;  // [N,C,H,W]
  std::array<int64_t, 2> size;
  Window window;

  explicit BytePool(const Facts& facts)
      : x(facts.in[0].dims), y(facts.out[0].dims), size(pooled_size(facts.attrs)), window(window_of(facts.attrs)) {}

  SeenWindow seen(int64_t row, int64_t column) const {
    const int64_t top = row * window.strides[0] - window.pads[0], left = column * window.strides[1] - window.pads[1];
    return {std::max<int64_t>(top, 0), std::min(top + size[0], x[2]), std::max<int64_t>(left, 0),
            std::min(left + size[1], x[3])};
  }

  // Calls pool(seen, first pixel of the sample + channel, result, lanes) for each pixel and group of channels.
  template <class Pool>
  void for_each(const uint8_t* from, uint8_t* to, const Pool& pool) const {
    parallel_for(y[0] * y[2], 1, [&](int64_t first, int64_t last) {
      for (int64_t line = first; line < last; ++line)
        for (int64_t column = 0; column < y[3]; ++column) {
          const SeenWindow at = seen(line % y[2], column);
          const uint8_t* sample = from + line / y[2] * x[1] * x[2] * x[3];
          uint8_t* result = to + (line * y[3] + column) * y[1];
          for (int64_t c = 0; c < y[1]; c += kLanes) pool(at, sample + c, result + c, std::min(kLanes, y[1] - c));
        }
    });
  }

  // Calls visit(bytes of the channels) for each pixel that the window sees.
  template <class Visit>
  void for_each_pixel(const SeenWindow& at, const uint8_t* sample, const Visit& visit) const {
    for (int64_t row = at.top; row < at.bottom; ++row)
      for (int64_t column = at.left; column < at.right; ++column) visit(sample + (row * x[3] + column) * x[1]);
  }
};

Prepared pooled_by_pixels(const Facts& facts, std::shared_ptr<Kernel> kernel) {
  return {.kernel = std::move(kernel),
          .in = {by_pixels(DType::U8, facts.in[0].dims)},
          .out = {by_pixels(DType::U8, facts.out[0].dims)}};
}

Prepared prepare_int8_max(const Facts& facts) {
  const BytePool pool(facts);
  return pooled_by_pixels(facts, make_kernel([=](const Args& args) {
                            pool.for_each(
                                args.input<uint8_t>(0), args.output<uint8_t>(0),
                                [&](const SeenWindow& at, const uint8_t* sample, uint8_t* result, int64_t lanes) {
                                  std::fill(result, result + lanes, uint8_t{0});
                                  pool.for_each_pixel(at, sample, [&](const uint8_t* pixel) {
                                    for (int64_t i = 0; i < lanes; ++i) result[i] = std::max(result[i], pixel[i]);
                                  });
                                });
                          }));
}

Prepared prepare_int8_average(const Facts& facts) {
  const BytePool pool(facts);
  const bool counts_pads = facts.attrs.i("count_pads") != 0;
  const auto factor = static_cast<float>(facts.attrs.f("scale", 1));
  const auto zero = static_cast<int32_t>(facts.attrs.i("zero"));
  const auto zero_out = static_cast<float>(facts.attrs.i("zero_out"));
  return pooled_by_pixels(
      facts, make_kernel([=](const Args& args) {
        pool.for_each(args.input<uint8_t>(0), args.output<uint8_t>(0),
                      [&](const SeenWindow& at, const uint8_t* sample, uint8_t* result, int64_t lanes) {
                        int32_t sums[kLanes];
                        std::fill(sums, sums + lanes, -zero * static_cast<int32_t>(at.count()));
                        pool.for_each_pixel(at, sample, [&](const uint8_t* pixel) {
                          for (int64_t i = 0; i < lanes; ++i) sums[i] += pixel[i];
                        });
                        const auto pixels = static_cast<float>(counts_pads ? pool.size[0] * pool.size[1] : at.count());
                        for (int64_t i = 0; i < lanes; ++i)
                          result[i] = to_saturated_byte(static_cast<float>(sums[i]) / pixels * factor + zero_out);
                      });
      }));
}

std::vector<Sample> max_pool_samples() {
  const Dim batch = Dim::batch();
  const auto sample = [](std::string name, Shape x, Size2d size, Window window) {
    return Sample{
        std::move(name),
        [=](SampleBuilder& s) { return std::vector{int8_max_pool(s.integers(x, 0, 256, DType::U8), size, window)}; },
        1e-4, false};
  };
  return {sample("2x2", {batch, 3, 4, 2}, {2, 2}, Window::strided(2)),
          sample("many channels", {batch, 70, 3, 3}, {2, 2}, {}),
          sample("overlapping, padded", {batch, 2, 4, 3}, {3, 3}, Window::strided(2, 1)),
          {"joined by pixels",  // by concat, which keeps the order that pooling leaves
           [](SampleBuilder& s) {
             const auto pooled = [&](int64_t channels) {
               return int8_max_pool(s.integers({Dim::batch(), channels, 3, 2}, 0, 256, DType::U8), {2, 1});
             };
             return std::vector{concat({pooled(5), pooled(3)}, 1), concat({pooled(4), pooled(4)}, 2)};
           },
           1e-4, false}};
}

std::vector<Sample> average_pool_samples() {
  const Dim batch = Dim::batch();
  const auto sample = [](std::string name, Shape x, Size2d size, Window window, bool count_pads) {
    return Sample{std::move(name),
                  [=](SampleBuilder& s) {
                    return std::vector{
                        int8_average_pool(s.integers(x, 0, 256, DType::U8), size, window, count_pads, 1.25, 30, 20)};
                  },
                  1e-4, false};
  };
  return {sample("2x2", {batch, 3, 4, 2}, {2, 2}, Window::strided(2), false),
          sample("whole image", {batch, 70, 3, 2}, {3, 2}, {}, false),
          sample("pads counted", {batch, 2, 4, 3}, {3, 3}, Window::strided(2, 1), true),
          sample("pads not counted", {batch, 2, 4, 3}, {3, 3}, Window::strided(2, 1), false)};
}

Cost int8_pool_cost(const Facts& facts) { return {.bytes = 2 * facts.operand_bytes()}; }

const Op kInt8MaxPool{.name = "int8_max_pool",
                      .storable = true,
                      .infer = infer_int8_pool,
                      .types = {DType::U8},
                      .prepare = prepare_int8_max,
                      .cost = int8_pool_cost,
                      .samples = max_pool_samples,
                      .traits = {.batch = BatchRule::Rows, .recomputable = true}};
const Op kInt8AveragePool{.name = "int8_average_pool",
                          .storable = true,
                          .infer = infer_int8_pool,
                          .types = {DType::U8},
                          .prepare = prepare_int8_average,
                          .cost = int8_pool_cost,
                          .samples = average_pool_samples,
                          .traits = {.batch = BatchRule::Rows, .recomputable = true}};

Attrs with_size(const Window& window, Size2d size) {
  Attrs attrs = attrs_of(window);
  attrs.set("size", Shape{size[0], size[1]});
  return attrs;
}

}  // namespace

Tensor int8_max_pool(Tensor x, Size2d size, const Window& window, Name name) {
  return apply(kInt8MaxPool, {x}, with_size(window, size), name);
}

Tensor int8_average_pool(Tensor x, Size2d size, const Window& window, bool count_pads, double factor, int64_t zero,
                         int64_t zero_out, Name name) {
  Attrs attrs = with_size(window, size);
  if (count_pads) attrs.set("count_pads", int64_t{1});
  attrs.set("scale", factor);
  attrs.set("zero", zero);
  attrs.set("zero_out", zero_out);
  return apply(kInt8AveragePool, {x}, attrs, name);
}

OpList int8_pool_ops() { return {&kInt8MaxPool, &kInt8AveragePool}; }

}  // namespace plimsoll::ops
