// clip: x kept within two numbers; relu6 is clip(x, 0, 6). The gradient needs the output alone.
#include <limits>

#include <fmt/format.h>

#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/clip.cpp"
#include "hwy/foreach_target.h"
#include "kernels/clamp-inl.h"
#include "kernels/tile_map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;

void clip_tile(const Tile& t) {
  const Floats low = hn::Set(FloatTag(), t.params[0]);
  const Floats high = hn::Set(FloatTag(), t.params[1]);
  map<1>(t, [=](Floats x) HWY_ATTR { return clip_of(x, low, high); });
}

// dy, y: an element on an edge has no gradient.
void clip_grad_tile(const Tile& t) {
  const Floats low = hn::Set(FloatTag(), t.params[0]);
  const Floats high = hn::Set(FloatTag(), t.params[1]);
  map<2>(t, [=](Floats dy, Floats y)
                HWY_ATTR { return hn::IfThenElseZero(hn::And(hn::Gt(y, low), hn::Lt(y, high)), dy); });
}

}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

void fill_edges(const Attrs& attrs, float* params) {
  params[0] = static_cast<float>(attrs.f("low", -std::numeric_limits<double>::infinity()));
  params[1] = static_cast<float>(attrs.f("high", std::numeric_limits<double>::infinity()));
}

PLIMSOLL_TILE(clip, 2, fill_edges)
PLIMSOLL_TILE(clip_grad, 2, fill_edges)

Tensor clip_grad(Tensor dy, Tensor y, const Attrs& attrs);

void infer(Infer& n) {
  if (!(n.attrs.f("low") <= n.attrs.f("high")))
    n.fail(fmt::format("low is {} but high is {}", n.attrs.f("low"), n.attrs.f("high")));
  infer_map(n);
}

void grad(Backward& b) { b.give(0, clip_grad(b.dy[0], b.y[0], b.attrs)); }
void grad_grad(Backward& b) {
  if (b.wanted[0]) b.give(0, clip_grad(b.dy[0], b.x[1], b.attrs));
}

std::string_view activation(const Attrs& attrs) { return attrs.f("low") == 0 && attrs.f("high") == 6 ? "relu6" : ""; }

std::optional<Fusion::Between> passes(const Attrs& attrs) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return Fusion::Between{attrs.f("low", -kInfinity), attrs.f("high", kInfinity)};
}

std::vector<Sample> samples() {
  return {{"inside",
           [](SampleBuilder& s) {
             return std::vector{clip(s.input({Dim::batch(), 3, 5}, -0.4, 0.4), -0.5, 0.5)};
           }},
          {"outside",
           [](SampleBuilder& s) {
             return std::vector{clip(s.input({Dim::batch(), 7}, 0.6, 2), -0.5, 0.5)};
           }},
          {"mixed",
           [](SampleBuilder& s) {
             return std::vector{clip(s.input({Dim::batch(), 13}), -0.5, 0.25)};
           },
           1e-4, false},
          {"relu6",
           [](SampleBuilder& s) {
             return std::vector{relu6(s.input({Dim::batch(), 3, 3}, 0.1, 5.9))};
           }},
          {"relu6 mixed",
           [](SampleBuilder& s) {
             return std::vector{relu6(s.input({Dim::batch(), 9}, -9, 9))};
           },
           1e-4, false}};
}

const Op kClip{.name = "clip",
               .storable = true,
               .infer = infer,
               .types = {kFloats},
               .grad = grad,
               .prepare = prepare_tile<tile_of_clip>,
               .samples = samples,
               .traits = map_traits(0b1),
               .tile = tile_of_clip,
               .onnx = "Clip",
               .fusion = {.activation = activation}};
const Op kClipGrad{.name = "clip_grad",
                   .infer = infer_same,
                   .types = {kFloats},
                   .grad = grad_grad,
                   .prepare = prepare_tile<tile_of_clip_grad>,
                   .traits = map_traits(0b11),
                   .tile = tile_of_clip_grad,
                   .fusion = {.gradient_of = &kClip, .passes = passes}};

Tensor clip_grad(Tensor dy, Tensor y, const Attrs& attrs) { return apply(kClipGrad, {dy, y}, attrs); }

}  // namespace

Tensor clip(Tensor x, double low, double high, Name name) {
  return apply(kClip, {x}, {{"low", low}, {"high", high}}, name);
}

Tensor relu6(Tensor x, Name name) { return clip(x, 0, 6, name.empty() ? "relu6" : name); }

OpList clip_ops() { return {&kClip, &kClipGrad}; }

}  // namespace plimsoll::ops
#endif
