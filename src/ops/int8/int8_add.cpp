// int8_add: y = saturate(round(scale_a a + scale_b b + offset)) of bytes, at least `low`; int8_rescale: the same of one
// operand. Either is also a relu where `low` is the zero point of y.
#include <fmt/format.h>

#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/int8/int8_add.cpp"
#include "hwy/foreach_target.h"
#include "kernels/tile_map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;

// Products and sums are rounded one by one, so that every processor gives the same bits.
void int8_add_tile(const Tile& t) {
  const FloatTag d;
  const Floats of_a = hn::Set(d, t.params[0]), of_b = hn::Set(d, t.params[1]), offset = hn::Set(d, t.params[2]);
  const Floats low = hn::Set(d, t.params[3]);
  map<2>(t, [=](Floats a, Floats b) HWY_ATTR {
    return hn::Max(hn::Round(hn::Add(hn::Add(hn::Mul(a, of_a), hn::Mul(b, of_b)), offset)), low);
  });
}

void int8_rescale_tile(const Tile& t) {
  const Floats factor = hn::Set(FloatTag(), t.params[0]), offset = hn::Set(FloatTag(), t.params[1]);
  const Floats low = hn::Set(FloatTag(), t.params[2]);
  map<1>(t, [=](Floats x) HWY_ATTR { return hn::Max(hn::Round(hn::Add(hn::Mul(x, factor), offset)), low); });
}

}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

void fill_sum(const Attrs& attrs, float* params) {
  params[0] = static_cast<float>(attrs.f("scale_a", 1));
  params[1] = static_cast<float>(attrs.f("scale_b", 1));
  params[2] = static_cast<float>(attrs.f("offset"));
  params[3] = static_cast<float>(attrs.f("low"));
}

void fill_rescaling(const Attrs& attrs, float* params) {
  params[0] = static_cast<float>(attrs.f("scale", 1));
  params[1] = static_cast<float>(attrs.f("offset"));
  params[2] = static_cast<float>(attrs.f("low"));
}

PLIMSOLL_TILE(int8_add, 4, fill_sum)
PLIMSOLL_TILE(int8_rescale, 3, fill_rescaling)

void infer_sum(Infer& n) {
  n.expect_positive("scale_a", 1);
  n.expect_positive("scale_b", 1);
  n.expect_finite("offset");
  n.expect_between("low", 0, 255, 0);
  infer_same(n);
}

void infer_rescaling(Infer& n) {
  n.expect_positive("scale", 1);
  n.expect_finite("offset");
  n.expect_between("low", 0, 255, 0);
  infer_map(n);
}

std::vector<Sample> sum_samples() {
  return {{"images",
           [](SampleBuilder& s) {
             const Shape shape{Dim::batch(), 3, 4, 2};
             return std::vector{
                 int8_add(s.integers(shape, 0, 256, DType::U8), s.integers(shape, 0, 256, DType::U8), 0.5, 0.75, -20)};
           },
           1e-4, false}};
}

std::vector<Sample> rescaling_samples() {
  return {{"of rows",
           [](SampleBuilder& s) {
             return std::vector{int8_rescale(s.integers({Dim::batch(), 7}, 0, 256, DType::U8), 1.5, -90, 10)};
           },
           1e-4, false}};
}

const Op kInt8Add{.name = "int8_add",
                  .storable = true,
                  .infer = infer_sum,
                  .types = {DType::U8},
                  .prepare = prepare_tile<tile_of_int8_add>,
                  .samples = sum_samples,
                  .traits = map_traits(0b11),
                  .tile = tile_of_int8_add};
const Op kInt8Rescale{.name = "int8_rescale",
                      .storable = true,
                      .infer = infer_rescaling,
                      .types = {DType::U8},
                      .prepare = prepare_tile<tile_of_int8_rescale>,
                      .samples = rescaling_samples,
                      .traits = map_traits(0b1),
                      .tile = tile_of_int8_rescale};

}  // namespace

Tensor int8_add(Tensor a, Tensor b, double scale_a, double scale_b, double offset, double low, Name name) {
  return apply(kInt8Add, {a, b}, {{"scale_a", scale_a}, {"scale_b", scale_b}, {"offset", offset}, {"low", low}}, name);
}

Tensor int8_rescale(Tensor x, double factor, double offset, double low, Name name) {
  return apply(kInt8Rescale, {x}, {{"scale", factor}, {"offset", offset}, {"low", low}}, name);
}

OpList int8_add_ops() { return {&kInt8Add, &kInt8Rescale}; }

}  // namespace plimsoll::ops
#endif
