// resample: axes in other sizes, by the nearest element, by straight lines or by cubic curves, with the coordinates and
// the rounding that ONNX names.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kernels/axis_taps.h"
#include "kernels/joined.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

struct Setting {
  int64_t from, to;
  std::string mode, coordinates, nearest;
  double cubic;
};

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> known) {
  return std::ranges::find(known, name) != known.end();
}

Setting setting_of(const Attrs& attrs, int64_t from, int64_t to) {
  return {from,
          to,
          std::string(attrs.s("mode", "linear")),
          std::string(attrs.s("coordinates", "half_pixel")),
          std::string(attrs.s("nearest", "round_prefer_floor")),
          attrs.f("cubic", -0.75)};
}

void expect_setting(Infer& n) {
  n.expect_inputs(1, 1);
  const int64_t axis = n.attrs.i("axis");
  const Shape& x = n.in[0].shape;
  if (axis < 0 || axis >= x.rank()) n.fail(fmt::format("axis {} is outside {}", axis, to_string(n.in[0])));
  const Dim size = x[static_cast<int>(axis)];
  if (size.is_batch()) n.fail(fmt::format("axis {} of {} is the batch", axis, to_string(n.in[0])));
  if (n.attrs.i("size") < 1 || size.fixed() < 1)
    n.fail(fmt::format("{} elements of {} can't be made of {}", n.attrs.i("size"), to_string(n.in[0]), size.fixed()));
  const Setting s = setting_of(n.attrs, 1, 1);
  if (!is_one_of(s.mode, {"nearest", "linear", "cubic"}))
    n.fail(fmt::format("mode '{}' is unknown; known are nearest, linear, cubic", s.mode));
  if (!is_one_of(s.coordinates,
                 {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn"}))
    n.fail(
        fmt::format("coordinates '{}' are unknown; known are half_pixel, pytorch_half_pixel, align_corners, "
                    "asymmetric, tf_half_pixel_for_nn",
                    s.coordinates));
  if (!is_one_of(s.nearest, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}))
    n.fail(fmt::format("nearest '{}' is unknown; known are round_prefer_floor, round_prefer_ceil, floor, ceil",
                       s.nearest));
  n.expect_finite("cubic", -0.75);
}

void infer(Infer& n) {
  expect_setting(n);
  Shape out = n.in[0].shape;
  out[static_cast<int>(n.attrs.i("axis"))] = n.attrs.i("size");
  n.out = {{n.in[0].dtype, out}};
}

void infer_back(Infer& n) {
  expect_setting(n);
  Shape out = n.in[0].shape;
  out[static_cast<int>(n.attrs.i("axis"))] = n.attrs.i("whole");
  n.out = {{n.in[0].dtype, out}};
}

double place_of(const Setting& s, int64_t j) {
  const double ratio = static_cast<double>(s.from) / static_cast<double>(s.to);
  const auto at = static_cast<double>(j);
  if (s.coordinates == "asymmetric") return at * ratio;
  if (s.coordinates == "tf_half_pixel_for_nn") return (at + 0.5) * ratio;
  if (s.coordinates == "align_corners")
    return s.to == 1 ? 0 : at * static_cast<double>(s.from - 1) / static_cast<double>(s.to - 1);
  if (s.coordinates == "pytorch_half_pixel" && s.to == 1) return 0;
  return (at + 0.5) * ratio - 0.5;
}

int64_t nearest_to(const Setting& s, double place) {
  double whole = std::floor(place);
  const double rest = place - whole;
  if (s.nearest == "ceil")
    whole = std::ceil(place);
  else if (s.nearest == "round_prefer_floor")
    whole += rest > 0.5 ? 1 : 0;
  else if (s.nearest == "round_prefer_ceil")
    whole += rest >= 0.5 ? 1 : 0;
  return std::clamp<int64_t>(static_cast<int64_t>(whole), 0, s.from - 1);
}

// Keys' curve: near is |distance| <= 1, far up to 2.
double cubic_near(double a, double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; }
double cubic_far(double a, double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; }

int64_t taps_of(const Setting& s) { return s.mode == "nearest" ? 1 : s.mode == "linear" ? 2 : 4; }

AxisTaps::Fill make_fill(const Setting& s) {
  const auto inside = [from = s.from](double at) { return std::clamp<int64_t>(static_cast<int64_t>(at), 0, from - 1); };
  if (s.mode == "nearest")
    return [s](int64_t j, int64_t* places, float* weights) {
      places[0] = nearest_to(s, place_of(s, j));
      weights[0] = 1;
    };
  if (s.mode == "linear")
    return [s, inside](int64_t j, int64_t* places, float* weights) {
      const double place = std::clamp(place_of(s, j), 0.0, static_cast<double>(s.from - 1));
      const double whole = std::floor(place);
      places[0] = inside(whole);
      places[1] = inside(whole + 1);
      weights[1] = static_cast<float>(place - whole);
      weights[0] = 1 - weights[1];
    };
  return [s, inside](int64_t j, int64_t* places, float* weights) {
    const double place = place_of(s, j), whole = std::floor(place), rest = place - whole;
    for (int k = 0; k < 4; ++k) places[k] = inside(whole + k - 1);
    weights[0] = static_cast<float>(cubic_far(s.cubic, rest + 1));
    weights[1] = static_cast<float>(cubic_near(s.cubic, rest));
    weights[2] = static_cast<float>(cubic_near(s.cubic, 1 - rest));
    weights[3] = static_cast<float>(cubic_far(s.cubic, 2 - rest));
  };
}

AxisTaps taps_between(const Attrs& attrs, const Dims& whole, const Dims& result) {
  const auto axis = static_cast<int>(attrs.i("axis"));
  const Setting s = setting_of(attrs, whole[axis], result[axis]);
  return {whole, axis, result[axis], taps_of(s), make_fill(s)};
}

Prepared prepare(const Facts& facts) {
  const AxisTaps taps = taps_between(facts.attrs, facts.in[0].dims, facts.out[0].dims);
  return {.kernel = make_kernel(
              [=](const Args& args) { taps.forward(args.input<float>(0), args.output<float>(0), args.workspace); }),
          .workspace_bytes = taps.forward_bytes()};
}

Prepared prepare_back(const Facts& facts) {
  const AxisTaps taps = taps_between(facts.attrs, facts.out[0].dims, facts.in[0].dims);
  return {.kernel = make_kernel(
              [=](const Args& args) { taps.backward(args.input<float>(0), args.output<float>(0), args.workspace); }),
          .workspace_bytes = taps.backward_bytes()};
}

extern const Op kResample;
void grad_back(Backward& b) {
  Attrs attrs = b.attrs;
  attrs.erase("whole");
  b.give(0, apply(kResample, {b.dy[0]}, attrs));
}
const Op kResampleBack{.name = "resample_back",
                       .infer = infer_back,
                       .grad = grad_back,
                       .prepare = prepare_back,
                       .traits = {.batch = BatchRule::Rows, .recomputable = true}};
void grad(Backward& b) {
  Attrs attrs = b.attrs;
  attrs.set("whole", b.x[0].dim(static_cast<int>(attrs.i("axis"))).fixed());
  b.give(0, apply(kResampleBack, {b.dy[0]}, attrs));
}

std::vector<Sample> samples() {
  const auto of = [](std::string name, std::string mode, std::string coordinates, std::string nearest) {
    return Sample{std::move(name), [=](SampleBuilder& s) {
                    const Tensor x = s.input({Dim::batch(), 2, 5, 4});
                    return std::vector{resample(x, {2, 3}, {7, 3}, mode, coordinates, nearest),
                                       resample(x, {-1}, {1}, mode, coordinates, nearest)};
                  }};
  };
  std::vector<Sample> all;
  for (const char* coordinates : {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"})
    for (const char* mode : {"linear", "cubic"})
      all.push_back(of(fmt::format("{}, {}", mode, coordinates), mode, coordinates, "floor"));
  for (const char* nearest : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})
    all.push_back(of(fmt::format("nearest, {}", nearest), "nearest", "half_pixel", nearest));
  all.push_back(of("nearest, tf", "nearest", "tf_half_pixel_for_nn", "floor"));
  return all;
}

const Op kResample{.name = "resample",
                   .storable = true,
                   .infer = infer,
                   .grad = grad,
                   .prepare = prepare,
                   .cost = [](const Facts& facts) { return Cost{.bytes = 2 * facts.operand_bytes()}; },
                   .samples = samples,
                   .traits = {.batch = BatchRule::Rows, .recomputable = true},
                   .onnx = "Resize"};

}  // namespace

Tensor resample(Tensor x, Dims axes, Dims sizes, std::string_view mode, std::string_view coordinates,
                std::string_view nearest, double cubic, Name name) {
  if (axes.rank() != sizes.rank())
    throw Error(fmt::format("resample '{}': {} axes have {} sizes", std::string_view(name), axes.rank(), sizes.rank()));
  for (int i = 0; i < axes.rank(); ++i) {
    const int at = resolve_axis("resample", name, static_cast<int>(axes[i]), x.type());
    x = apply(kResample, {x},
              {{"axis", int64_t{at}},
               {"size", sizes[i]},
               {"mode", std::string(mode)},
               {"coordinates", std::string(coordinates)},
               {"nearest", std::string(nearest)},
               {"cubic", cubic}},
              name);
  }
  return x;
}

OpList resample_ops() { return {&kResample, &kResampleBack}; }

}  // namespace plimsoll::ops
