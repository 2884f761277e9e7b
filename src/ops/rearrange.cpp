// flip, roll, repeat, windows, and borders made of a tensor: each element along an axis is one of the input's.
// fold_windows is their gradient: elements go back to where they came from, and meet in sums.
#include <algorithm>

#include <fmt/format.h>

#include "kernels/axis_taps.h"
#include "kernels/joined.h"
#include "ops/rearrange.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

// Where element j of the result comes from. What a, b and c mean depends on `how`.
struct Rule {
  std::string_view how;
  int64_t a, b, c;
};
Rule rule_of(const Attrs& attrs) { return {attrs.s("how"), attrs.i("a"), attrs.i("b"), attrs.i("c")}; }

constexpr int64_t kLongest = int64_t{1} << 40;  // of an axis

// The size of the result; the reason why there is none as text.
int64_t result_size(const Infer& n, const Rule& rule, int64_t size) {
  const auto& [how, a, b, c] = rule;
  const auto need = [&](bool holds, std::string_view what) {
    if (!holds) n.fail(fmt::format("{} of {} elements: {}", how, size, what));
  };
  if (how == "flip") return size;
  if (how == "roll") {
    need(a >= 0, "the shift is negative");
    return size;
  }
  if (how == "repeat") {
    need(a >= 1 && a < kLongest / std::max<int64_t>(1, size), fmt::format("{} times", a));
    return size * a;
  }
  if (how == "windows") {
    need(a >= 1 && b >= 1 && c >= 1 && a < kLongest && b < kLongest && c < kLongest / a,
         "size, step and dilation must be positive");
    const int64_t reach = (a - 1) * c + 1;
    need(reach <= size, fmt::format("a window reaches over {}", reach));
    const int64_t count = (size - reach) / b + 1;
    need(count < kLongest / a, "too many windows");
    return count * a;
  }
  need(a >= 0 && b >= 0 && a < kLongest && b < kLongest, "negative borders");
  if (how == "reflect") need(a < size && b < size, "a reflected border must be smaller than the axis");
  if (how == "symmetric" || how == "circular")
    need(a <= size && b <= size, "a border must not be larger than the axis");
  if (how == "edge") need(size > 0, "there is no edge");
  if (how != "reflect" && how != "symmetric" && how != "circular" && how != "edge")
    n.fail(fmt::format("mode '{}' is unknown; known are reflect, symmetric, edge, circular", how));
  return a + size + b;
}

AxisTaps::Fill make_fill(const Rule& rule, int64_t size) {
  const auto& [how, a, b, c] = rule;
  const auto place = [](auto where) {
    return [=](int64_t j, int64_t* places, float* weights) {
      places[0] = where(j);
      weights[0] = 1;
    };
  };
  const int64_t first = a, step = b, dilation = c;
  if (how == "flip") return place([=](int64_t j) { return size - 1 - j; });
  if (how == "roll") return place([=](int64_t j) { return (j + size - first % size) % size; });
  if (how == "repeat") return place([=](int64_t j) { return j / first; });
  if (how == "windows") return place([=](int64_t j) { return j / first * step + j % first * dilation; });
  if (how == "edge") return place([=](int64_t j) { return std::clamp<int64_t>(j - first, 0, size - 1); });
  if (how == "circular") return place([=](int64_t j) { return (j - first + size) % size; });
  const int64_t again = how == "symmetric" ? 1 : 0;
  return place([=](int64_t j) {
    const int64_t at = j - first;
    return at < 0 ? -at - again : at >= size ? 2 * (size - 1) - at + again : at;
  });
}

int axis_in(const Infer& n) {
  const int64_t axis = n.attrs.i("axis");
  if (axis < 0 || axis >= n.in[0].shape.rank()) n.fail(fmt::format("axis {} is outside {}", axis, to_string(n.in[0])));
  return static_cast<int>(axis);
}

bool keeps_size(const Rule& rule) { return rule.how == "flip" || rule.how == "roll"; }

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  const int axis = axis_in(n);
  const Rule rule = rule_of(n.attrs);
  Shape out = n.in[0].shape;
  if (keeps_size(rule)) {
    result_size(n, rule, out[axis].count());
  } else {
    if (out[axis].is_batch()) n.fail(fmt::format("axis {} of {} is the batch", axis, to_string(n.in[0])));
    out[axis] = result_size(n, rule, out[axis].fixed());
  }
  n.out = {{n.in[0].dtype, out}};
}

// Of a result back to `size` elements.
void infer_fold(Infer& n) {
  n.expect_inputs(1, 1);
  const int axis = axis_in(n);
  const Rule rule = rule_of(n.attrs);
  Shape out = n.in[0].shape;
  if (keeps_size(rule)) {
    result_size(n, rule, out[axis].count());
  } else {
    const int64_t size = n.attrs.i("size");
    if (out[axis].is_batch()) n.fail(fmt::format("axis {} of {} is the batch", axis, to_string(n.in[0])));
    if (size < 0 || result_size(n, rule, size) != out[axis].fixed())
      n.fail(
          fmt::format("axis {} of {} is not what {} makes of {} elements", axis, to_string(n.in[0]), rule.how, size));
    out[axis] = size;
  }
  n.out = {{n.in[0].dtype, out}};
}

Prepared prepare(const Facts& facts) {
  const auto axis = static_cast<int>(facts.attrs.i("axis"));
  const AxisTaps taps(facts.in[0].dims, axis, facts.out[0].dims[axis], 1,
                      make_fill(rule_of(facts.attrs), facts.in[0].dims[axis]));
  const Bytes item = size_of(facts.in[0].dtype);
  return {.kernel = make_kernel([=](const Args& args) { taps.copy(args.in[0], args.out[0], item, args.workspace); }),
          .workspace_bytes = taps.forward_bytes()};
}

Prepared prepare_fold(const Facts& facts) {
  const auto axis = static_cast<int>(facts.attrs.i("axis"));
  const AxisTaps taps(facts.out[0].dims, axis, facts.in[0].dims[axis], 1,
                      make_fill(rule_of(facts.attrs), facts.out[0].dims[axis]));
  return {.kernel = make_kernel(
              [=](const Args& args) { taps.backward(args.input<float>(0), args.output<float>(0), args.workspace); }),
          .workspace_bytes = taps.backward_bytes()};
}

BatchRule batch_rule(const Attrs& attrs, std::span<const TensorType> in) {
  return in[0].shape[static_cast<int>(attrs.i("axis"))].is_batch() ? BatchRule::Mixes : BatchRule::Rows;
}

extern const Op kRearrange;
extern const Op kFold;

void grad(Backward& b) {
  Attrs attrs = b.attrs;
  if (!keeps_size(rule_of(attrs))) attrs.set("size", b.x[0].dim(static_cast<int>(attrs.i("axis"))).fixed());
  b.give(0, apply(kFold, {b.dy[0]}, attrs));
}
void grad_fold(Backward& b) {
  Attrs attrs = b.attrs;
  attrs.erase("size");
  b.give(0, apply(kRearrange, {b.dy[0]}, attrs));
}

Tensor rearrange(Tensor x, int axis, const Rule& rule, Name name) {
  const int at = resolve_axis(rule.how, name, axis, x.type());
  return apply(kRearrange, {x},
               {{"axis", int64_t{at}}, {"how", std::string(rule.how)}, {"a", rule.a}, {"b", rule.b}, {"c", rule.c}},
               name);
}

std::vector<Sample> samples() {
  return {{"flip",
           [](SampleBuilder& s) {
             return std::vector{flip(s.input({Dim::batch(), 3, 5}), {1, -1})};
           }},
          {"flip batch",
           [](SampleBuilder& s) {
             return std::vector{flip(s.input({Dim::batch(), 3}), {})};
           }},
          {"roll",
           [](SampleBuilder& s) {
             const Tensor x = s.input({Dim::batch(), 3, 5});
             return std::vector{roll(x, 2, 2), roll(x, -1, 1), roll(x, 7, 0)};
           }},
          {"repeat",
           [](SampleBuilder& s) {
             return std::vector{repeat(s.input({Dim::batch(), 3, 2}), 3, 1)};
           }},
          {"borders",
           [](SampleBuilder& s) {
             const Tensor x = s.input({Dim::batch(), 4, 5});
             std::vector<Tensor> all;
             for (const char* mode : {"reflect", "symmetric", "edge", "circular"})
               all.push_back(pad_border(x, {0, 1, 3}, {0, 2, 0}, mode));
             return all;
           }},
          {"windows",
           [](SampleBuilder& s) {
             return std::vector{unfold(s.input({Dim::batch(), 2, 5, 6}), {3, 2}, Window::strided(2, 1))};
           }},
          {"integers",
           [](SampleBuilder& s) {
             return std::vector{roll(s.integers({Dim::batch(), 5}, 0, 100), 1, 1),
                                repeat(s.integers({Dim::batch(), 5}, 0, 100, DType::U8), 2, 1),
                                flip(s.integers({Dim::batch(), 5}, 0, 100, DType::I64), {1})};
           },
           1e-4, false}};
}

std::vector<Sample> samples_fold() {
  return {{"windows",
           [](SampleBuilder& s) {
             return std::vector{fold(s.input({Dim::batch(), 12, 12}), {5, 6}, {3, 2}, Window::strided(2, 1))};
           }},
          {"once each", [](SampleBuilder& s) {
             return std::vector{fold(s.input({Dim::batch(), 4, 6}), {4, 6}, {2, 2}, Window::strided(2))};
           }}};
}

const Op kRearrange{.name = "rearrange",
                    .storable = true,
                    .infer = infer,
                    .types = {kAnyType},
                    .grad = grad,
                    .prepare = prepare,
                    .samples = samples,
                    .traits = {.batch = BatchRule::Rows, .recomputable = true},
                    .batch_rule = batch_rule};
const Op kFold{.name = "rearrange_back",
               .storable = true,
               .infer = infer_fold,
               .grad = grad_fold,
               .prepare = prepare_fold,
               .samples = samples_fold,
               .traits = {.batch = BatchRule::Rows, .recomputable = true},
               .batch_rule = batch_rule};

int64_t windows_in(int64_t size, int64_t filter, int64_t step, int64_t dilation) {
  return (size - (filter - 1) * dilation - 1) / step + 1;
}

}  // namespace

Tensor flip(Tensor x, Dims axes, Name name) {
  if (axes.empty())
    for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  for (const int64_t axis : axes) x = rearrange(x, static_cast<int>(axis), {"flip", 0, 0, 0}, name);
  return x;
}

Tensor roll(Tensor x, int64_t shift, int axis, Name name) {
  const Dim size = x.dim(resolve_axis("roll", name, axis, x.type()));
  if (shift < 0 && size.is_batch())
    throw Error(fmt::format("roll '{}': along the batch the shift must not be negative", std::string_view(name)));
  if (!size.is_batch() && size.fixed() > 0) shift = (shift % size.fixed() + size.fixed()) % size.fixed();
  return rearrange(x, axis, {"roll", shift, 0, 0}, name);
}

Tensor repeat(Tensor x, int64_t times, int axis, Name name) {
  return rearrange(x, axis, {"repeat", times, 0, 0}, name);
}

Tensor windows(Tensor x, int axis, int64_t size, int64_t step, int64_t dilation, Name name) {
  return rearrange(x, axis, {"windows", size, step, dilation}, name);
}

Tensor fold_windows(Tensor x, int axis, int64_t whole, int64_t size, int64_t step, int64_t dilation, Name name) {
  const int at = resolve_axis("fold_windows", name, axis, x.type());
  return apply(kFold, {x},
               {{"axis", int64_t{at}},
                {"how", std::string("windows")},
                {"a", size},
                {"b", step},
                {"c", dilation},
                {"size", whole}},
               name);
}

Tensor pad_border(Tensor x, Dims before, Dims after, std::string_view mode, Name name) {
  if (before.rank() != x.rank() || after.rank() != x.rank())
    throw Error(fmt::format("pad_border '{}': {} needs {} sizes before and after but has {} and {}",
                            std::string_view(name), to_string(x.type()), x.rank(), to_string(before),
                            to_string(after)));
  for (int i = 0; i < x.rank(); ++i)
    if (before[i] != 0 || after[i] != 0) x = rearrange(x, i, {mode, before[i], after[i], 0}, name);
  return x;
}

// [B, C, H, W] as [B, C h w, places]: windows along both axes, which then move to the front.
Tensor unfold(Tensor x, Size2d size, const Window& window, Name name) {
  if (x.rank() != 4)
    throw Error(fmt::format("unfold '{}': {} is no image [batch, channels, height, width]", std::string_view(name),
                            to_string(x.type())));
  const auto& pads = window.pads;
  if (pads != std::array<int64_t, 4>{}) x = pad(x, {0, 0, pads[0], pads[1]}, {0, 0, pads[2], pads[3]});
  const Shape shape = x.shape();
  Dims count;
  for (const int i : {0, 1}) {
    const auto k = static_cast<size_t>(i);
    x = windows(x, 2 + i, size[k], window.strides[k], window.dilations[k]);
    count.push_back(windows_in(shape[2 + i].fixed(), size[k], window.strides[k], window.dilations[k]));
  }
  x = reshape(x, {shape[0], shape[1], count[0], size[0], count[1], size[1]});
  x = transpose(x, {0, 1, 3, 5, 2, 4});
  return reshape(x, {shape[0], shape[1] * size[0] * size[1], count[0] * count[1]}, name);
}

Tensor fold(Tensor x, Size2d image, Size2d size, const Window& window, Name name) {
  const auto& pads = window.pads;
  const Size2d whole{image[0] + pads[0] + pads[2], image[1] + pads[1] + pads[3]};
  Dims count;
  for (const size_t k : {size_t{0}, size_t{1}})
    count.push_back(windows_in(whole[k], size[k], window.strides[k], window.dilations[k]));
  const int64_t area = size[0] * size[1];
  if (x.rank() != 3 || x.dim(1).is_batch() || x.dim(1).fixed() % area != 0 || !(x.dim(2) == Dim(count[0] * count[1])))
    throw Error(fmt::format("fold '{}': {} must be [batch, channels {}, {} windows]", std::string_view(name),
                            to_string(x.type()), area, count[0] * count[1]));
  const int64_t channels = x.dim(1).fixed() / area;
  const Dim batch = x.dim(0);
  x = reshape(x, {batch, channels, size[0], size[1], count[0], count[1]});
  x = reshape(transpose(x, {0, 1, 4, 2, 5, 3}), {batch, channels, count[0] * size[0], count[1] * size[1]});
  for (const int i : {1, 0}) {
    const auto k = static_cast<size_t>(i);
    x = fold_windows(x, 2 + i, whole[k], size[k], window.strides[k], window.dilations[k]);
  }
  if (whole[0] != image[0]) x = slice(x, 2, pads[0], image[0]);
  if (whole[1] != image[1]) x = slice(x, 3, pads[1], image[1]);
  return x;
}

OpList rearrange_ops() { return {&kRearrange, &kFold}; }

}  // namespace plimsoll::ops
