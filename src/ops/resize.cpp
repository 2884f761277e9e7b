// resize: images of another size, by the nearest pixel or by straight lines between pixels (half-pixel centres).
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ops/image_order.h"
#include "ops/ops.h"
#include "ops/parallel.h"
#include "ops/sample.h"

namespace plimsoll {
namespace {

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  n.expect_float(0);
  n.expect_rank(0, 4);
  const Dims size = n.attrs.dims("size");
  if (size.rank() != 2 || size[0] < 1 || size[1] < 1) n.fail("the size must be two positive numbers");
  const std::string_view mode = n.attrs.s("mode", "nearest");
  if (mode != "nearest" && mode != "bilinear")
    n.fail(fmt::format("there is no mode '{}'; use nearest or bilinear", mode));
  const Shape& x = n.in[0].shape;
  n.out = {{DType::F32, {x[0], x[1], size[0], size[1]}}};
}

// Where an output pixel comes from along one axis: two input pixels and the weight of the second.
struct Source {
  int64_t near, far;
  float weight;
};

Source source_of(int64_t at, int64_t from, int64_t to, bool is_linear) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  if (!is_linear) {
    const auto nearest = static_cast<int64_t>(std::floor((static_cast<double>(at) + 0.5) * scale));
    return {std::min(nearest, from - 1), std::min(nearest, from - 1), 0};
  }
  const double place = std::max(0.0, (static_cast<double>(at) + 0.5) * scale - 0.5);
  const int64_t near = std::min(static_cast<int64_t>(place), from - 1);
  return {near, std::min(near + 1, from - 1), static_cast<float>(place - static_cast<double>(near))};
}

struct Sizes {
  int64_t from[2], to[2];
  bool is_linear;
};

// The sources of all columns, once for all rows: in scratch memory.
Source* columns(const Args& args, const Sizes& sizes) {
  auto* across = static_cast<Source*>(args.scratch);
  for (int64_t i = 0; i < sizes.to[1]; ++i) across[i] = source_of(i, sizes.from[1], sizes.to[1], sizes.is_linear);
  return across;
}

// A fixed block lets the compiler make vectors of it.
template <int64_t kBlock>
void resize_plane(const Sizes& sizes, const Source* across, const float* x, float* y) {
  for (int64_t row = 0; row < sizes.to[0]; ++row) {
    const Source down = source_of(row, sizes.from[0], sizes.to[0], sizes.is_linear);
    const float* upper = x + down.near * sizes.from[1] * kBlock;
    const float* lower = x + down.far * sizes.from[1] * kBlock;
    for (int64_t column = 0; column < sizes.to[1]; ++column, y += kBlock) {
      const Source& at = across[column];
      const float* near = upper + at.near * kBlock;
      if (!sizes.is_linear) {
        std::copy(near, near + kBlock, y);
        continue;
      }
      const float* far = upper + at.far * kBlock;
      const float* near_below = lower + at.near * kBlock;
      const float* far_below = lower + at.far * kBlock;
      for (int64_t lane = 0; lane < kBlock; ++lane) {
        const float top = near[lane] + at.weight * (far[lane] - near[lane]);
        const float bottom = near_below[lane] + at.weight * (far_below[lane] - near_below[lane]);
        y[lane] = top + down.weight * (bottom - top);
      }
    }
  }
}

template <int64_t kBlock>
void spread_plane(const Sizes& sizes, const Source* across, const float* dy, float* dx) {
  std::fill(dx, dx + sizes.from[0] * sizes.from[1] * kBlock, 0.0F);
  for (int64_t row = 0; row < sizes.to[0]; ++row) {
    const Source down = source_of(row, sizes.from[0], sizes.to[0], sizes.is_linear);
    float* upper = dx + down.near * sizes.from[1] * kBlock;
    float* lower = dx + down.far * sizes.from[1] * kBlock;
    for (int64_t column = 0; column < sizes.to[1]; ++column, dy += kBlock) {
      const Source& at = across[column];
      for (int64_t lane = 0; lane < kBlock; ++lane) {
        const float bottom = dy[lane] * down.weight;
        const float top = dy[lane] - bottom;
        upper[at.near * kBlock + lane] += top - top * at.weight;
        if (!sizes.is_linear) continue;
        upper[at.far * kBlock + lane] += top * at.weight;
        lower[at.near * kBlock + lane] += bottom - bottom * at.weight;
        lower[at.far * kBlock + lane] += bottom * at.weight;
      }
    }
  }
}

using PlaneFunction = void (*)(const Sizes& sizes, const Source* across, const float* in, float* out);

template <bool kIsGradient>
PlaneFunction function_for(int64_t block) {
  if (block == 8) return kIsGradient ? spread_plane<8> : resize_plane<8>;
  if (block == 16) return kIsGradient ? spread_plane<16> : resize_plane<16>;
  return kIsGradient ? spread_plane<1> : resize_plane<1>;
}

template <bool kIsGradient>
Prepared prepare(const Facts& facts) {
  const ImageOrder order = order_or_plain(facts.in[0]);
  const Dims& small = kIsGradient ? facts.out[0].dims : facts.in[0].dims;
  const Dims& large = kIsGradient ? facts.in[0].dims : facts.out[0].dims;
  const Sizes sizes{
      {small[2], small[3]}, {large[2], large[3]}, facts.attrs.s("mode", "nearest") == std::string_view("bilinear")};
  const PlaneFunction function = function_for<kIsGradient>(order.block());
  const int64_t in_plane = order.pixels() * order.block();
  const int64_t out_plane = facts.out[0].dims[2] * facts.out[0].dims[3] * order.block();
  const int64_t grain = std::max<int64_t>(1, 8192 / std::max(in_plane, out_plane));
  return {.kernel = make_kernel([=](const Args& args) {
            const Source* across = columns(args, sizes);
            const auto* in = args.input<float>(0);
            auto* out = args.output<float>(0);
            parallel_for(order.planes(), grain, [&](int64_t first, int64_t last) {
              for (int64_t plane = first; plane < last; ++plane)
                function(sizes, across, in + plane * in_plane, out + plane * out_plane);
            });
          }),
          .in = {order.layout(DType::F32, facts.in[0].dims)},
          .out = {order.layout(DType::F32, facts.out[0].dims)},
          .scratch_bytes = sizes.to[1] * static_cast<Bytes>(sizeof(Source))};
}

const Op kGrad{.name = "resize_grad",
               .infer =
                   [](Infer& n) {
                     n.out = {{DType::F32, n.attrs.shape("shape")}};
                   },
               .prepare = prepare<true>,
               .traits = {.batch = BatchRule::Rows, .recomputable = true}};

void grad(Backward& b) {
  Attrs attrs = b.attrs;
  attrs.set("shape", b.x[0].shape());
  b.give(0, b.dy[0].graph().add(kGrad, {b.dy[0]}, attrs));
}

std::vector<Sample> samples() {
  const auto sample = [](std::string name, Shape shape, std::array<int64_t, 2> size, const std::string& mode,
                         bool blocked) {
    return Sample{std::move(name), [=](SampleBuilder& s) {
                    Tensor x = s.input(shape);
                    // A convolution hands its result on in a blocked order.
                    if (blocked) x = conv2d(x, s.input({shape[1], shape[1], 1, 1}));
                    return std::vector{resize(x, size, mode)};
                  }};
  };
  const Dim batch = Dim::batch();
  return {sample("nearest, double", {batch, 2, 3, 2}, {6, 4}, "nearest", false),
          sample("nearest, odd", {batch, 2, 5, 3}, {3, 7}, "nearest", false),
          sample("bilinear, double", {batch, 2, 3, 2}, {6, 4}, "bilinear", false),
          sample("bilinear, odd", {batch, 2, 5, 3}, {3, 7}, "bilinear", false),
          sample("bilinear, blocked", {batch, 8, 2, 2}, {3, 4}, "bilinear", true),
          sample("nearest, padded channels", {batch, 9, 2, 2}, {3, 3}, "nearest", true)};
}

const Op kResize{.name = "resize",
                 .infer = infer,
                 .grad = grad,
                 .prepare = prepare<false>,
                 .samples = samples,
                 .traits = {.batch = BatchRule::Rows, .recomputable = true},
                 .onnx = "Resize"};

}  // namespace

Tensor resize(Tensor x, std::array<int64_t, 2> size, std::string_view mode, Name name) {
  return x.graph().add(kResize, {x}, {{"size", Shape::from(size)}, {"mode", std::string(mode)}}, name);
}

OpList resize_ops() { return {&kResize, &kGrad}; }

}  // namespace plimsoll
