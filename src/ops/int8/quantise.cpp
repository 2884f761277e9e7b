// quantise: y = saturate(round(x / scale) + zero), as u8 or i8; dequantise: x = scale (y - zero). Rounds half to even.
#include <limits>

#include <fmt/format.h>

#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/int8/quantise.cpp"
#include "hwy/foreach_target.h"
#include "kernels/tile_map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;

// Whole numbers, which storing saturates.
void quantise_tile(const Tile& t) {
  const Floats scale = hn::Set(FloatTag(), t.params[0]);
  const Floats zero = hn::Set(FloatTag(), t.params[1]);
  map<1>(t, [=](Floats x) HWY_ATTR { return hn::Add(hn::Round(hn::Div(x, scale)), zero); });
}

void dequantise_tile(const Tile& t) {
  const Floats scale = hn::Set(FloatTag(), t.params[0]);
  const Floats zero = hn::Set(FloatTag(), t.params[1]);
  map<1>(t, [=](Floats y) HWY_ATTR { return hn::Mul(hn::Sub(y, zero), scale); });
}

}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

void fill_scale(const Attrs& attrs, float* params) {
  params[0] = static_cast<float>(attrs.f("scale", 1));
  params[1] = static_cast<float>(attrs.i("zero"));
}

PLIMSOLL_TILE(quantise, 2, fill_scale)
PLIMSOLL_TILE(dequantise, 2, fill_scale)

void expect_zero_in(const Infer& n, DType dtype) {
  const int64_t low = dtype == DType::U8 ? 0 : -128, zero = n.attrs.i("zero");
  if (zero < low || zero > low + 255)
    n.fail(fmt::format("the zero point {} is no number of type {}", zero, name_of(dtype)));
}

void infer_quantise(Infer& n) {
  n.expect_inputs(1, 1);
  n.expect_positive("scale", 1);
  const DType dtype = parse_dtype(n.attrs.s("dtype", "u8"));
  if (dtype != DType::U8 && dtype != DType::I8)
    n.fail(fmt::format("the result must be u8 or i8 but is to be {}", name_of(dtype)));
  expect_zero_in(n, dtype);
  n.out = {{dtype, n.in[0].shape}};
}

void infer_dequantise(Infer& n) {
  n.expect_inputs(1, 1);
  n.expect_positive("scale", 1);
  expect_zero_in(n, n.in[0].dtype);
  n.out = {{DType::F32, n.in[0].shape}};
}

Sample quantise_sample(const char* name, Shape shape, double scale, int64_t zero, DType dtype) {
  return {name, [=](SampleBuilder& s) { return std::vector{quantise(s.input(shape, -3, 5), scale, zero, dtype)}; },
          1e-4, false};
}

std::vector<Sample> quantise_samples() {
  return {quantise_sample("to u8", {Dim::batch(), 3, 5}, 0.03125, 96, DType::U8),
          quantise_sample("to i8", {Dim::batch(), 7}, 0.0625, -5, DType::I8),
          quantise_sample("saturated", {Dim::batch(), 2, 3, 4}, 0.0078125, 0, DType::U8)};
}

Sample dequantise_sample(const char* name, int64_t zero, DType dtype) {
  const double low = dtype == DType::U8 ? 0 : -128;
  return {name,
          [=](SampleBuilder& s) {
            return std::vector{dequantise(s.integers({Dim::batch(), 3, 5}, low, low + 256, dtype), 0.05, zero)};
          },
          1e-4, false};
}

std::vector<Sample> dequantise_samples() {
  return {dequantise_sample("of u8", 96, DType::U8), dequantise_sample("of i8", -5, DType::I8)};
}

const Op kQuantise{.name = "quantise",
                   .storable = true,
                   .infer = infer_quantise,
                   .prepare = prepare_tile<tile_of_quantise>,
                   .samples = quantise_samples,
                   .traits = map_traits(0),
                   .tile = tile_of_quantise,
                   .onnx = "QuantizeLinear"};
const Op kDequantise{.name = "dequantise",
                     .storable = true,
                     .infer = infer_dequantise,
                     .types = {{DType::U8, DType::I8}},
                     .prepare = prepare_tile<tile_of_dequantise>,
                     .samples = dequantise_samples,
                     .traits = map_traits(0),
                     .tile = tile_of_dequantise,
                     .onnx = "DequantizeLinear"};

}  // namespace

Tensor quantise(Tensor x, double scale, int64_t zero, DType dtype, Name name) {
  return apply(kQuantise, {x}, {{"scale", scale}, {"zero", zero}, {"dtype", std::string(name_of(dtype))}}, name);
}

Tensor dequantise(Tensor x, double scale, int64_t zero, Name name) {
  return apply(kDequantise, {x}, {{"scale", scale}, {"zero", zero}}, name);
}

OpList quantise_ops() { return {&kQuantise, &kDequantise}; }

}  // namespace plimsoll::ops
#endif
