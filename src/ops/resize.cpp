// resize: images of another size, by the nearest pixel or by straight lines between pixels (half-pixel centres).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/resize.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/vector_math-inl.h"

#ifndef PLIMSOLL_OPS_RESIZE_ONCE
#define PLIMSOLL_OPS_RESIZE_ONCE
namespace plimsoll::ops {
namespace {

struct ResizeSizes {
  int64_t from[2], to[2];
  bool is_linear;
};

// Where an output pixel comes from along one axis: two input pixels and the weight of the second.
struct SourcePixel {
  int64_t near, far;
  float weight;
};

// A vector of output columns whose sources all lie in the vector of input columns at `start`.
constexpr int kGroupLanes = 16, kFewestLanes = 4;
struct alignas(64) Group {
  int32_t near[kGroupLanes], far[kGroupLanes];
  float weight[kGroupLanes];
  int64_t start;
};

// What all planes share; the lists lie in workspace.
struct Forward {
  ResizeSizes sizes;
  SourcePixel* down;
  SourcePixel* across;
  Group* groups;
  int64_t group_count = 0;  // zero where some vector of columns needs more than one vector of the input
};

// The output pixels along one axis that an input pixel contributes to.
struct Taps {
  int64_t first, count;
  const float* weights;
};
struct Fold {
  ResizeSizes sizes;
  Taps* down;
  Taps* across;
};
constexpr int64_t kAhead = 512;     // floats
constexpr int64_t kRowMargin = 64;  // floats that the folded row has to spare on each side

}  // namespace
}  // namespace plimsoll::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;
namespace {

using GroupTag = hn::CappedTag<float, kGroupLanes>;

void make_groups(Forward& f) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(GroupTag()));
  const int64_t from = f.sizes.from[1];
  const int64_t to = f.sizes.to[1];
  if (lanes < kFewestLanes || from < lanes || to < lanes) return;
  const int64_t count = (to + lanes - 1) / lanes;
  for (int64_t g = 0; g < count; ++g) {
    // The last group overlaps the group before it rather than being shorter.
    const SourcePixel* across = f.across + std::min(g * lanes, to - lanes);
    Group& group = f.groups[g];
    group.start = std::min(across[0].near, from - lanes);
    if (across[lanes - 1].far - group.start >= lanes) return;
    for (int64_t i = 0; i < lanes; ++i) {
      group.near[i] = static_cast<int32_t>(across[i].near - group.start);
      group.far[i] = static_cast<int32_t>(across[i].far - group.start);
      group.weight[i] = across[i].weight;
    }
  }
  f.group_count = count;
}

// Fetches what lies kAhead after `count` floats at `at`: the processor alone does so too late where several rows are
// read for each that is written.
HWY_INLINE void fetch_ahead(const float* at, int64_t count) {
  constexpr int64_t kLine = 16;
  for (int64_t i = 0; i < count; i += kLine) hwy::Prefetch(at + kAhead + i);
}

// A row of the input with the columns of the output.
template <bool kIsLinear, int64_t kBlock>
void expand_row(const Forward& f, const float* x, float* y) {
  const hn::CappedTag<float, kBlock> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t column = 0; column < f.sizes.to[1]; ++column, y += kBlock) {
    const SourcePixel& at = f.across[column];
    for (int64_t i = 0; i < kBlock; i += lanes) {
      const auto near = hn::LoadU(d, x + at.near * kBlock + i);
      if constexpr (kIsLinear) {
        const auto far = hn::LoadU(d, x + at.far * kBlock + i);
        hn::StoreU(hn::MulAdd(hn::Set(d, at.weight), hn::Sub(far, near), near), d, y + i);
      } else {
        hn::StoreU(near, d, y + i);
      }
    }
  }
}

template <bool kIsLinear>
void expand_groups(const Forward& f, const float* x, float* y) {
  const GroupTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t g = 0; g < f.group_count; ++g) {
    const Group& group = f.groups[g];
    const auto all = hn::LoadU(d, x + group.start);
    const auto near = hn::TableLookupLanes(all, hn::SetTableIndices(d, group.near));
    float* to = y + std::min(g * lanes, f.sizes.to[1] - lanes);
    if constexpr (kIsLinear) {
      const auto far = hn::TableLookupLanes(all, hn::SetTableIndices(d, group.far));
      hn::StoreU(hn::MulAdd(hn::Load(d, group.weight), hn::Sub(far, near), near), d, to);
    } else {
      hn::StoreU(near, d, to);
    }
  }
}

// y = a + weight (b - a)
HWY_INLINE void blend_rows(const float* a, const float* b, float weight, int64_t count, float* y) {
  const FloatTag d;
  const Floats w = hn::Set(d, weight);
  for_vectors(count, [&](int64_t i, auto part) HWY_ATTR {
    const Floats first = part.load(d, a + i);
    part.store(d, hn::MulAdd(w, hn::Sub(part.load(d, b + i), first), first), y + i);
  });
}

template <bool kIsLinear, int64_t kBlock>
void resize_plane_as(const Forward& f, const float* x, float* y, float* expanded) {
  const ResizeSizes& n = f.sizes;
  const int64_t x_stride = n.from[1] * kBlock;
  const int64_t y_stride = n.to[1] * kBlock;
  const auto expand = [&](int64_t row, float* to) {
    if (kBlock == 1 && f.group_count > 0)
      expand_groups<kIsLinear>(f, x + row * x_stride, to);
    else
      expand_row<kIsLinear, kBlock>(f, x + row * x_stride, to);
  };
  int64_t held[2] = {-1, -1};  // the even and the odd row that `expanded` holds
  const auto expanded_row = [&](int64_t row) {
    float* to = expanded + row % 2 * y_stride;
    if (held[row % 2] != row) expand(held[row % 2] = row, to);
    return to;
  };
  for (int64_t row = 0; row < n.to[0]; ++row, y += y_stride) {
    const SourcePixel& down = f.down[row];
    fetch_ahead(y, y_stride);
    if constexpr (kIsLinear)
      blend_rows(expanded_row(down.near), expanded_row(down.far), down.weight, y_stride, y);
    else if (row > 0 && f.down[row - 1].near == down.near)
      std::copy(y - y_stride, y, y);
    else
      expand(down.near, y);
  }
}

// The sum of the rows of `dy` that an input row contributed to.
void fold_rows(const Taps& taps, const float* dy, int64_t stride, float* sum) {
  constexpr int kVectors = 4;
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* rows = dy + taps.first * stride;
  int64_t i = 0;
  for (; i + kVectors * lanes <= stride; i += kVectors * lanes) {
    Floats s[kVectors];
    for (Floats& v : s) v = hn::Zero(d);
    for (int64_t k = 0; k < taps.count; ++k) {
      const Floats weight = hn::Set(d, taps.weights[k]);
      for (int v = 0; v < kVectors; ++v)
        s[v] = hn::MulAdd(weight, hn::LoadU(d, rows + k * stride + i + v * lanes), s[v]);
    }
    for (int v = 0; v < kVectors; ++v) hn::StoreU(s[v], d, sum + i + v * lanes);
  }
  for_vectors(stride - i, [&](int64_t j, auto part) HWY_ATTR {
    Floats s = hn::Zero(d);
    for (int64_t k = 0; k < taps.count; ++k)
      s = hn::MulAdd(hn::Set(d, taps.weights[k]), part.load(d, rows + k * stride + i + j), s);
    part.store(d, s, sum + i + j);
  });
}

// Where the output has twice the columns, the same weights hold everywhere; beyond the ends the last ones repeat.
template <bool kIsLinear>
void fold_doubled(float* row, int64_t columns, float* dx) {
  const FloatTag d;
  row[-1] = row[0];
  row[2 * columns] = row[2 * columns - 1];
  const Floats inner = hn::Set(d, 0.75F);
  const Floats outer = hn::Set(d, 0.25F);
  for_vectors(columns, [&](int64_t i, auto part) HWY_ATTR {
    Floats a, b;
    if constexpr (kIsLinear) {
      Floats before, after;
      hn::LoadInterleaved2(d, row + 2 * i - 1, before, a);
      hn::LoadInterleaved2(d, row + 2 * i + 1, b, after);
      part.store(d, hn::MulAdd(outer, hn::Add(before, after), hn::Mul(inner, hn::Add(a, b))), dx + i);
    } else {
      hn::LoadInterleaved2(d, row + 2 * i, a, b);
      part.store(d, hn::Add(a, b), dx + i);
    }
  });
}

template <int64_t kBlock>
void fold_columns(const Fold& b, const float* row, float* dx) {
  const hn::CappedTag<float, kBlock> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t column = 0; column < b.sizes.from[1]; ++column) {
    const Taps& taps = b.across[column];
    for (int64_t i = 0; i < kBlock; i += lanes) {
      auto sum = hn::Zero(d);
      for (int64_t k = 0; k < taps.count; ++k)
        sum = hn::MulAdd(hn::Set(d, taps.weights[k]), hn::LoadU(d, row + (taps.first + k) * kBlock + i), sum);
      hn::StoreU(sum, d, dx + column * kBlock + i);
    }
  }
}

template <int64_t kBlock>
void fold_plane_as(const Fold& b, const float* dy, float* dx, float* row) {
  const ResizeSizes& n = b.sizes;
  const int64_t stride = n.to[1] * kBlock;
  const bool is_doubled = kBlock == 1 && n.to[1] == 2 * n.from[1];
  for (int64_t i = 0; i < n.from[0]; ++i, dx += n.from[1] * kBlock) {
    const Taps& down = b.down[i];
    if (i > 0) fetch_ahead(dy + (down.first + down.count) * stride, (down.first - b.down[i - 1].first) * stride);
    fold_rows(down, dy, stride, row);
    if (!is_doubled)
      fold_columns<kBlock>(b, row, dx);
    else if (n.is_linear)
      fold_doubled<true>(row, n.from[1], dx);
    else
      fold_doubled<false>(row, n.from[1], dx);
  }
}

// `expanded`: space for two rows of `y`.
void resize_plane(const Forward& f, int64_t block, const float* x, float* y, float* expanded) {
  const auto run = [&](auto is_linear) {
    if (block == 8) return resize_plane_as<is_linear(), 8>(f, x, y, expanded);
    if (block == 16) return resize_plane_as<is_linear(), 16>(f, x, y, expanded);
    return resize_plane_as<is_linear(), 1>(f, x, y, expanded);
  };
  return f.sizes.is_linear ? run(std::true_type()) : run(std::false_type());
}

// `row`: space for a row of `dy`, with kRowMargin on each side.
void fold_plane(const Fold& b, int64_t block, const float* dy, float* dx, float* row) {
  if (block == 8) return fold_plane_as<8>(b, dy, dx, row);
  if (block == 16) return fold_plane_as<16>(b, dy, dx, row);
  return fold_plane_as<1>(b, dy, dx, row);
}

}  // namespace
}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/format.h>

#include "kernels/image_order.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

HWY_EXPORT(make_groups);
HWY_EXPORT(resize_plane);
HWY_EXPORT(fold_plane);

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  n.expect_rank(0, 4);
  const Dims size = n.attrs.dims("size");
  if (size.rank() != 2 || size[0] < 1 || size[1] < 1) n.fail("the size must be two positive numbers");
  const std::string_view mode = n.attrs.s("mode", "nearest");
  if (mode != "nearest" && mode != "bilinear")
    n.fail(fmt::format("there is no mode '{}'; use nearest or bilinear", mode));
  const Shape& x = n.in[0].shape;
  n.out = {{DType::F32, {x[0], x[1], size[0], size[1]}}};
}

SourcePixel source_of(int64_t at, int64_t from, int64_t to, bool is_linear) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  if (!is_linear) {
    const auto nearest = static_cast<int64_t>(std::floor((static_cast<double>(at) + 0.5) * scale));
    return {std::min(nearest, from - 1), std::min(nearest, from - 1), 0};
  }
  const double place = std::max(0.0, (static_cast<double>(at) + 0.5) * scale - 0.5);
  const int64_t near = std::min(static_cast<int64_t>(place), from - 1);
  return {near, std::min(near + 1, from - 1), static_cast<float>(place - static_cast<double>(near))};
}

void list_sources(const ResizeSizes& sizes, int axis, SourcePixel* to) {
  for (int64_t i = 0; i < sizes.to[axis]; ++i) to[i] = source_of(i, sizes.from[axis], sizes.to[axis], sizes.is_linear);
}

// Returns the end of the weights. An input pixel contributes to consecutive output pixels, and each of those comes from
// two at most.
float* list_taps(const ResizeSizes& sizes, int axis, Taps* to, float* weights) {
  const int64_t from = sizes.from[axis];
  int64_t first = 0;
  for (int64_t i = 0; i < from; ++i) {
    const auto source = [&](int64_t at) { return source_of(at, from, sizes.to[axis], sizes.is_linear); };
    while (first < sizes.to[axis] && source(first).far < i) ++first;
    to[i] = {first, 0, weights};
    for (int64_t at = first; at < sizes.to[axis]; ++at) {
      const SourcePixel s = source(at);
      if (s.near > i) break;
      *weights++ = (s.near == i ? 1 - s.weight : 0) + (s.far == i ? s.weight : 0);
      ++to[i].count;
    }
  }
  return weights;
}

struct Setting {
  Setting(const Facts& facts, const Dims& small, const Dims& large)
      : order(order_or_plain(facts.in[0])),
        sizes{{small[2], small[3]}, {large[2], large[3]}, facts.attrs.s("mode", "nearest") == "bilinear"},
        small_plane(small[2] * small[3] * order.block()),
        large_plane(large[2] * large[3] * order.block()) {
    // Small images are not worth waking a thread for.
    const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, std::max(small_plane, large_plane)));
    pieces = std::clamp<int64_t>(order.planes() / grain, 1, 64);
    slots = static_cast<int>(std::min<int64_t>(pieces, thread_slots()));
  }

  // Calls body(plane, slot).
  template <class Body>
  void for_planes(const Body& body) const {
    parallel_items(pieces, slots, [&](int64_t piece, int slot) {
      for (int64_t i = order.planes() * piece / pieces; i < order.planes() * (piece + 1) / pieces; ++i) body(i, slot);
    });
  }

  Prepared prepared(const Facts& facts, std::shared_ptr<Kernel> kernel, Bytes workspace_bytes) const {
    return {.kernel = std::move(kernel),
            .in = {order.layout(DType::F32, facts.in[0].dims)},
            .out = {order.layout(DType::F32, facts.out[0].dims)},
            .workspace_bytes = workspace_bytes};
  }

  ImageOrder order;
  ResizeSizes sizes;
  int64_t small_plane, large_plane;
  int64_t pieces;
  int slots;
};

constexpr Bytes kFloatBytes = sizeof(float);

Prepared prepare(const Facts& facts) {
  const Setting s(facts, facts.in[0].dims, facts.out[0].dims);
  const int64_t block = s.order.block();
  const int64_t groups = block == 1 ? s.sizes.to[1] / kFewestLanes + 1 : 0;
  const int64_t rows_floats = round_up(2 * s.sizes.to[1] * block, 16);
  const Bytes bytes = groups * static_cast<Bytes>(sizeof(Group)) + s.slots * rows_floats * kFloatBytes +
                      (s.sizes.to[0] + s.sizes.to[1]) * static_cast<Bytes>(sizeof(SourcePixel));
  const auto run = [=](const Args& args) {
    auto* first_group = static_cast<Group*>(args.workspace);
    auto* rows = reinterpret_cast<float*>(first_group + groups);
    auto* sources = reinterpret_cast<SourcePixel*>(rows + s.slots * rows_floats);
    Forward f{s.sizes, sources, sources + s.sizes.to[0], first_group};
    list_sources(s.sizes, 0, f.down);
    list_sources(s.sizes, 1, f.across);
    if (block == 1) HWY_DYNAMIC_DISPATCH(make_groups)(f);
    const auto* x = args.input<float>(0);
    auto* y = args.output<float>(0);
    s.for_planes([&](int64_t i, int slot) {
      HWY_DYNAMIC_DISPATCH(resize_plane)
      (f, block, x + i * s.small_plane, y + i * s.large_plane, rows + slot * rows_floats);
    });
  };
  return s.prepared(facts, make_kernel(run), bytes);
}

Prepared prepare_grad(const Facts& facts) {
  const Setting s(facts, facts.out[0].dims, facts.in[0].dims);
  const ResizeSizes& n = s.sizes;
  const int64_t row_floats = round_up(n.to[1] * s.order.block() + 2 * kRowMargin, 16);
  const Bytes bytes = (n.from[0] + n.from[1]) * static_cast<Bytes>(sizeof(Taps)) +
                      (2 * (n.to[0] + n.to[1]) + s.slots * row_floats) * kFloatBytes;
  const auto run = [=](const Args& args) {
    auto* rows = static_cast<float*>(args.workspace);
    auto* taps = reinterpret_cast<Taps*>(rows + s.slots * row_floats);
    const Fold b{s.sizes, taps, taps + s.sizes.from[0]};
    auto* weights = reinterpret_cast<float*>(b.across + s.sizes.from[1]);
    list_taps(s.sizes, 1, b.across, list_taps(s.sizes, 0, b.down, weights));
    const auto* dy = args.input<float>(0);
    auto* dx = args.output<float>(0);
    s.for_planes([&](int64_t i, int slot) {
      HWY_DYNAMIC_DISPATCH(fold_plane)
      (b, s.order.block(), dy + i * s.large_plane, dx + i * s.small_plane, rows + slot * row_floats + kRowMargin);
    });
  };
  return s.prepared(facts, make_kernel(run), bytes);
}

const Op kGrad{.name = "resize_grad",
               .infer =
                   [](Infer& n) {
                     n.out = {{DType::F32, n.attrs.shape("shape")}};
                   },
               .prepare = prepare_grad,
               .traits = {.batch = BatchRule::Rows, .recomputable = true}};

void grad(Backward& b) {
  Attrs attrs = b.attrs;
  attrs.set("shape", b.x[0].shape());
  b.give(0, apply(kGrad, {b.dy[0]}, attrs));
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
          sample("nearest, vectors", {batch, 1, 2, 21}, {3, 50}, "nearest", false),
          sample("nearest, double vectors", {batch, 1, 2, 19}, {4, 38}, "nearest", false),
          sample("bilinear, vectors", {batch, 1, 2, 21}, {5, 50}, "bilinear", false),
          sample("bilinear, double vectors", {batch, 1, 2, 19}, {4, 38}, "bilinear", false),
          sample("bilinear, smaller", {batch, 1, 4, 33}, {3, 18}, "bilinear", false),
          sample("bilinear, blocked", {batch, 8, 2, 2}, {3, 4}, "bilinear", true),
          sample("nearest, padded channels", {batch, 9, 2, 2}, {3, 3}, "nearest", true)};
}

const Op kResize{.name = "resize",
                 .storable = true,
                 .infer = infer,
                 .grad = grad,
                 .prepare = prepare,
                 .samples = samples,
                 .traits = {.batch = BatchRule::Rows, .recomputable = true},
                 .onnx = "Resize"};

}  // namespace

Tensor resize(Tensor x, std::array<int64_t, 2> size, std::string_view mode, Name name) {
  return apply(kResize, {x}, {{"size", Shape::from(size)}, {"mode", std::string(mode)}}, name);
}

OpList resize_ops() { return {&kResize, &kGrad}; }

}  // namespace plimsoll::ops
#endif
