// equal, not_equal, less, less_equal, greater, greater_equal: one bool for every element, broadcast.
// i32 and i64 are compared as integers: floats tell whole numbers apart only up to 2^24.
#include <functional>

#include "kernels/integer_map.h"
#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/compare.cpp"
#include "hwy/foreach_target.h"
#include "kernels/tile_map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;

template <class Compare>
HWY_INLINE void compare(const Tile& t, const Compare& holds) {
  map<2>(t, [&](Floats a, Floats b) HWY_ATTR { return hn::IfThenElseZero(holds(a, b), hn::Set(FloatTag(), 1.0F)); });
}

void equal_tile(const Tile& t) {
  compare(t, [](Floats a, Floats b) HWY_ATTR { return hn::Eq(a, b); });
}
void not_equal_tile(const Tile& t) {
  compare(t, [](Floats a, Floats b) HWY_ATTR { return hn::Ne(a, b); });
}
void less_tile(const Tile& t) {
  compare(t, [](Floats a, Floats b) HWY_ATTR { return hn::Lt(a, b); });
}
void less_equal_tile(const Tile& t) {
  compare(t, [](Floats a, Floats b) HWY_ATTR { return hn::Le(a, b); });
}
void greater_tile(const Tile& t) {
  compare(t, [](Floats a, Floats b) HWY_ATTR { return hn::Gt(a, b); });
}
void greater_equal_tile(const Tile& t) {
  compare(t, [](Floats a, Floats b) HWY_ATTR { return hn::Ge(a, b); });
}

}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

PLIMSOLL_TILE(equal)
PLIMSOLL_TILE(not_equal)
PLIMSOLL_TILE(less)
PLIMSOLL_TILE(less_equal)
PLIMSOLL_TILE(greater)
PLIMSOLL_TILE(greater_equal)

void infer(Infer& n) {
  infer_broadcast(n);
  n.out[0].dtype = DType::Bool;
}

template <const TileOp* (*tile)(), class Holds>
Prepared prepare(const Facts& facts) {
  if (is_large_integer(facts.in[0].dtype))
    return {.kernel = with_integer(facts.in[0].dtype, [&](auto number) {
              return make_integer_pairs<decltype(number), uint8_t>(
                  facts, [](auto a, auto b) { return static_cast<uint8_t>(Holds()(a, b)); });
            })};
  return prepare_tile(facts, *tile());
}

template <Tensor (*function)(Tensor, Tensor, Name)>
std::vector<Sample> samples() {
  return {{"reals",
           [](SampleBuilder& s) {
             return std::vector{function(s.input({Dim::batch(), 3, 5}), s.input({5}), {})};
           },
           1e-4, false},
          {"whole numbers",
           [](SampleBuilder& s) {
             return std::vector{function(s.integers({Dim::batch(), 7}, 0, 3), s.integers({Dim::batch(), 1}, 0, 3), {})};
           },
           1e-4, false}};
}

// Not in place: a broadcast input of four bytes can have as many bytes as a larger output of one.
constexpr Op make_compare(std::string_view name, Prepared (*prepare)(const Facts&), std::vector<Sample> (*examples)(),
                          const TileOp* (*tile)(), std::string_view onnx) {
  return {.name = name,
          .storable = true,
          .infer = infer,
          .types = {kAnyType},
          .prepare = prepare,
          .samples = examples,
          .traits = map_traits(0),
          .tile = tile,
          .onnx = onnx};
}

const Op kEqual =
    make_compare("equal", prepare<tile_of_equal, std::equal_to<>>, samples<equal>, tile_of_equal, "Equal");
const Op kNotEqual = make_compare("not_equal", prepare<tile_of_not_equal, std::not_equal_to<>>, samples<not_equal>,
                                  tile_of_not_equal, "");
const Op kLess = make_compare("less", prepare<tile_of_less, std::less<>>, samples<less>, tile_of_less, "Less");
const Op kLessEqual = make_compare("less_equal", prepare<tile_of_less_equal, std::less_equal<>>, samples<less_equal>,
                                   tile_of_less_equal, "LessOrEqual");
const Op kGreater =
    make_compare("greater", prepare<tile_of_greater, std::greater<>>, samples<greater>, tile_of_greater, "Greater");
const Op kGreaterEqual = make_compare("greater_equal", prepare<tile_of_greater_equal, std::greater_equal<>>,
                                      samples<greater_equal>, tile_of_greater_equal, "GreaterOrEqual");

}  // namespace

Tensor equal(Tensor a, Tensor b, Name name) { return apply(kEqual, {a, b}, {}, name); }
Tensor not_equal(Tensor a, Tensor b, Name name) { return apply(kNotEqual, {a, b}, {}, name); }
Tensor less(Tensor a, Tensor b, Name name) { return apply(kLess, {a, b}, {}, name); }
Tensor less_equal(Tensor a, Tensor b, Name name) { return apply(kLessEqual, {a, b}, {}, name); }
Tensor greater(Tensor a, Tensor b, Name name) { return apply(kGreater, {a, b}, {}, name); }
Tensor greater_equal(Tensor a, Tensor b, Name name) { return apply(kGreaterEqual, {a, b}, {}, name); }

OpList compare_ops() { return {&kEqual, &kNotEqual, &kLess, &kLessEqual, &kGreater, &kGreaterEqual}; }

}  // namespace plimsoll::ops
#endif
