// logical_and, logical_or, logical_xor, logical_not: any number but zero is true; isnan, isinf, isfinite. One bool for
// every element.
#include "ops/unary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/logical.cpp"
#include "hwy/foreach_target.h"
#include "kernels/tile_map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;

template <class Mask>
HWY_INLINE Floats one_where(Mask holds) {
  return hn::IfThenElseZero(holds, hn::Set(FloatTag(), 1.0F));
}
HWY_INLINE auto is_set(Floats x) { return hn::Ne(x, hn::Zero(FloatTag())); }

void logical_and_tile(const Tile& t) {
  map<2>(t, [](Floats a, Floats b) HWY_ATTR { return one_where(hn::And(is_set(a), is_set(b))); });
}
void logical_or_tile(const Tile& t) {
  map<2>(t, [](Floats a, Floats b) HWY_ATTR { return one_where(hn::Or(is_set(a), is_set(b))); });
}
void logical_xor_tile(const Tile& t) {
  map<2>(t, [](Floats a, Floats b) HWY_ATTR { return one_where(hn::Xor(is_set(a), is_set(b))); });
}
void logical_not_tile(const Tile& t) {
  map<1>(t, [](Floats x) HWY_ATTR { return one_where(hn::Eq(x, hn::Zero(FloatTag()))); });
}
void isnan_tile(const Tile& t) {
  map<1>(t, [](Floats x) HWY_ATTR { return one_where(hn::IsNaN(x)); });
}
void isinf_tile(const Tile& t) {
  map<1>(t, [](Floats x) HWY_ATTR { return one_where(hn::IsInf(x)); });
}
void isfinite_tile(const Tile& t) {
  map<1>(t, [](Floats x) HWY_ATTR { return one_where(hn::IsFinite(x)); });
}

}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

PLIMSOLL_TILE(logical_and)
PLIMSOLL_TILE(logical_or)
PLIMSOLL_TILE(logical_xor)
PLIMSOLL_TILE(logical_not)
PLIMSOLL_TILE(isnan)
PLIMSOLL_TILE(isinf)
PLIMSOLL_TILE(isfinite)

void infer_pair(Infer& n) {
  n.expect_inputs(2, 2);
  n.out = {{DType::Bool, broadcast_inputs(n, 0)}};
}
void infer_one(Infer& n) {
  n.expect_inputs(1, 1);
  n.out = {{DType::Bool, n.in[0].shape}};
}

template <Tensor (*function)(Tensor, Tensor, Name)>
std::vector<Sample> samples_of_pairs() {
  return {{"bools",
           [](SampleBuilder& s) {
             return std::vector{
                 function(s.integers({Dim::batch(), 3, 5}, 0, 2, DType::Bool), s.integers({5}, 0, 2, DType::Bool), {})};
           },
           1e-4, false},
          {"numbers",
           [](SampleBuilder& s) {
             return std::vector{
                 function(s.integers({Dim::batch(), 7}, -1, 2), s.integers({Dim::batch(), 1}, -1, 2, DType::I64), {})};
           },
           1e-4, false}};
}
std::vector<Sample> samples_not() {
  return {{"bools",
           [](SampleBuilder& s) {
             return std::vector{logical_not(s.integers({Dim::batch(), 7}, 0, 2, DType::Bool))};
           },
           1e-4, false}};
}
// Logarithms and reciprocals of zero, positive and negative numbers.
template <Tensor (*function)(Tensor, Name)>
std::vector<Sample> samples_of_kinds() {
  return {{"logarithms",
           [](SampleBuilder& s) {
             return std::vector{function(log(cast(s.integers({Dim::batch(), 13}, -2, 3), DType::F32)), {})};
           },
           1e-4, false},
          {"numbers",
           [](SampleBuilder& s) {
             return std::vector{function(s.input({Dim::batch(), 5}), {})};
           },
           1e-4, false}};
}

// Not in place: an output of one byte may be as large as a broadcast input of four.
constexpr Op make_logical(std::string_view name, void (*infer)(Infer&), DTypes types, const TileOp* (*tile)(),
                          Prepared (*prepare)(const Facts&), std::vector<Sample> (*samples)(), std::string_view onnx) {
  return {.name = name,
          .storable = true,
          .infer = infer,
          .types = {types},
          .prepare = prepare,
          .samples = samples,
          .traits = map_traits(0),
          .tile = tile,
          .onnx = onnx};
}

const Op kAnd = make_logical("logical_and", infer_pair, kAnyType, tile_of_logical_and,
                             prepare_tile<tile_of_logical_and>, samples_of_pairs<logical_and>, "And");
const Op kOr = make_logical("logical_or", infer_pair, kAnyType, tile_of_logical_or, prepare_tile<tile_of_logical_or>,
                            samples_of_pairs<logical_or>, "Or");
const Op kXor = make_logical("logical_xor", infer_pair, kAnyType, tile_of_logical_xor,
                             prepare_tile<tile_of_logical_xor>, samples_of_pairs<logical_xor>, "Xor");
const Op kNot = make_logical("logical_not", infer_one, kAnyType, tile_of_logical_not, prepare_tile<tile_of_logical_not>,
                             samples_not, "Not");
const Op kIsNaN = make_logical("isnan", infer_one, kFloats, tile_of_isnan, prepare_tile<tile_of_isnan>,
                               samples_of_kinds<isnan>, "IsNaN");
const Op kIsInf = make_logical("isinf", infer_one, kFloats, tile_of_isinf, prepare_tile<tile_of_isinf>,
                               samples_of_kinds<isinf>, "IsInf");
const Op kIsFinite = make_logical("isfinite", infer_one, kFloats, tile_of_isfinite, prepare_tile<tile_of_isfinite>,
                                  samples_of_kinds<isfinite>, "");

}  // namespace

Tensor logical_and(Tensor a, Tensor b, Name name) { return apply(kAnd, {a, b}, {}, name); }
Tensor logical_or(Tensor a, Tensor b, Name name) { return apply(kOr, {a, b}, {}, name); }
Tensor logical_xor(Tensor a, Tensor b, Name name) { return apply(kXor, {a, b}, {}, name); }
Tensor logical_not(Tensor x, Name name) { return apply(kNot, {x}, {}, name); }
Tensor isnan(Tensor x, Name name) { return apply(kIsNaN, {x}, {}, name); }
Tensor isinf(Tensor x, Name name) { return apply(kIsInf, {x}, {}, name); }
Tensor isfinite(Tensor x, Name name) { return apply(kIsFinite, {x}, {}, name); }

OpList logical_ops() { return {&kAnd, &kOr, &kXor, &kNot, &kIsNaN, &kIsInf, &kIsFinite}; }

}  // namespace plimsoll::ops
#endif
