// add, sub, mul, div, pow, minimum, maximum of two tensors, broadcast; scale by numbers. Integers wrap around, and
// their quotients are rounded towards minus infinity.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kernels/integer_map.h"

#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/arithmetic.cpp"
#include "hwy/foreach_target.h"
#include "kernels/tile_map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;

void add_tile(const Tile& t) {
  map<2>(t, [](Floats a, Floats b) HWY_ATTR { return hn::Add(a, b); });
}
void sub_tile(const Tile& t) {
  map<2>(t, [](Floats a, Floats b) HWY_ATTR { return hn::Sub(a, b); });
}
void mul_tile(const Tile& t) {
  map<2>(t, [](Floats a, Floats b) HWY_ATTR { return hn::Mul(a, b); });
}
void div_tile(const Tile& t) {
  map<2>(t, [](Floats a, Floats b) HWY_ATTR { return hn::Div(a, b); });
}
// A NaN in either operand gives a NaN.
void minimum_tile(const Tile& t) {
  map<2>(t, [](Floats a, Floats b) HWY_ATTR { return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b); });
}
void maximum_tile(const Tile& t) {
  map<2>(t, [](Floats a, Floats b) HWY_ATTR { return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b); });
}
// Common exponents are computed by products and roots; the others by the C library.
void pow_tile(const Tile& t) {
  for (size_t i = 0; i < t.count; ++i) {
    const float x = t.in[0][i];
    const float e = t.in[1][i];
    t.out[i] = e == 2 ? x * x : e == 1 ? x : e == 0.5F ? std::sqrt(x) : std::pow(x, e);
  }
}
void scale_tile(const Tile& t) {
  const Floats factor = hn::Set(FloatTag(), t.params[0]);
  const Floats offset = hn::Set(FloatTag(), t.params[1]);
  map<1>(t, [=](Floats x) HWY_ATTR { return hn::MulAdd(x, factor, offset); });
}

}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

PLIMSOLL_TILE(add)
PLIMSOLL_TILE(sub)
PLIMSOLL_TILE(mul)
PLIMSOLL_TILE(div)
PLIMSOLL_TILE(pow)
PLIMSOLL_TILE(minimum)
PLIMSOLL_TILE(maximum)
PLIMSOLL_TILE(scale, 2, [](const Attrs& attrs, float* params) {
  params[0] = static_cast<float>(attrs.f("factor", 1));
  params[1] = static_cast<float>(attrs.f("offset", 0));
})

// Of integers by themselves, of floats by tiles.
template <const TileOp* (*tile)(), class Function>
Prepared prepare_pair(const Facts& facts) {
  if (!is_large_integer(facts.out[0].dtype)) return prepare_tile(facts, *tile());
  return {.kernel = with_integer(facts.out[0].dtype,
                                 [&](auto number) { return make_integer_pairs<decltype(number)>(facts, Function()); })};
}
#define PLIMSOLL_OF_INTEGERS(name, expression) \
  struct name {                                \
    template <class T>                         \
    T operator()(T a, T b) const {             \
      return expression;                       \
    }                                          \
  };
PLIMSOLL_OF_INTEGERS(Sum, wrapped_sum(a, b))
PLIMSOLL_OF_INTEGERS(Difference, wrapped_difference(a, b))
PLIMSOLL_OF_INTEGERS(Product, wrapped_product(a, b))
PLIMSOLL_OF_INTEGERS(Quotient, floor_quotient(a, b))
PLIMSOLL_OF_INTEGERS(Smaller, std::min(a, b))
PLIMSOLL_OF_INTEGERS(Larger, std::max(a, b))

bool is_whole(double number) { return number == std::floor(number) && std::abs(number) <= 0x1p53; }

void infer_scale(Infer& n) {
  n.expect_finite("factor", 1);
  n.expect_finite("offset");
  infer_map(n);
  if (!is_large_integer(n.in[0].dtype)) {
    if (n.attrs.i("divisor", 1) != 1) n.fail("only integers have a divisor");
    return;
  }
  for (const double number : {n.attrs.f("factor", 1), n.attrs.f("offset")})
    if (!is_whole(number))
      n.fail(fmt::format("{} can't take {}, which is not whole; cast it to f32 first", to_string(n.in[0]), number));
}

// floor((factor x + offset) / divisor)
Prepared prepare_scale(const Facts& facts) {
  if (!is_large_integer(facts.in[0].dtype)) return prepare_tile(facts, *tile_of_scale());
  return {.kernel = with_integer(facts.in[0].dtype, [&](auto number) {
            using T = decltype(number);
            const auto factor = static_cast<T>(static_cast<int64_t>(facts.attrs.f("factor", 1)));
            const auto offset = static_cast<T>(static_cast<int64_t>(facts.attrs.f("offset")));
            const auto divisor = static_cast<T>(facts.attrs.i("divisor", 1));
            return make_integer_map<T>(facts, [=](T x) {
              const T y = wrapped_sum(wrapped_product(x, factor), offset);
              return divisor == 1 ? y : floor_quotient(y, divisor);
            });
          })};
}

// Gives an input its gradient, summed over the dimensions along which it was repeated.
void give_summed(Backward& b, size_t input, Tensor grad) { b.give(input, sum_to(grad, b.x[input].shape())); }

void grad_add(Backward& b) {
  for (size_t i = 0; i < 2; ++i)
    if (b.wanted[i]) give_summed(b, i, b.dy[0]);
}
void grad_sub(Backward& b) {
  if (b.wanted[0]) give_summed(b, 0, b.dy[0]);
  if (b.wanted[1]) b.give(1, scale(sum_to(b.dy[0], b.x[1].shape()), -1));
}
void grad_mul(Backward& b) {
  for (size_t i = 0; i < 2; ++i)
    if (b.wanted[i]) give_summed(b, i, mul(b.dy[0], b.x[1 - i]));
}
void grad_div(Backward& b) {
  const Tensor part = div(b.dy[0], b.x[1]);
  if (b.wanted[0]) give_summed(b, 0, part);
  if (b.wanted[1]) b.give(1, scale(sum_to(mul(part, b.y[0]), b.x[1].shape()), -1));
}
void grad_pow(Backward& b) {
  const Tensor base = b.x[0];
  const Tensor exponent = b.x[1];
  if (b.wanted[0]) give_summed(b, 0, mul(b.dy[0], mul(exponent, pow(base, scale(exponent, 1, -1)))));
  if (b.wanted[1]) give_summed(b, 1, mul(b.dy[0], mul(b.y[0], log(base))));
}
// Where both operands are equal, the first gets the whole gradient.
void grad_chosen(Backward& b, Tensor first_is_chosen) {
  const Tensor zero = b.dy[0].graph().scalar(0);
  if (b.wanted[0]) give_summed(b, 0, where(first_is_chosen, b.dy[0], zero));
  if (b.wanted[1]) give_summed(b, 1, where(first_is_chosen, zero, b.dy[0]));
}
void grad_minimum(Backward& b) { grad_chosen(b, less_equal(b.x[0], b.x[1])); }
void grad_maximum(Backward& b) { grad_chosen(b, greater_equal(b.x[0], b.x[1])); }
void grad_scale(Backward& b) { b.give(0, scale(b.dy[0], b.attrs.f("factor", 1))); }

Sample integers(const char* name, Tensor (*function)(Tensor, Tensor, Name)) {
  return {name,
          [=](SampleBuilder& s) {
            const Tensor x = s.integers({Dim::batch(), 3, 5}, -90, 90);
            const Tensor y = s.integers({Dim::batch(), 7}, -90, 90, DType::I64);
            return std::vector{function(x, s.integers({5}, 1, 9), {}), function(s.integers({3, 1}, 0, 9), x, {}),
                               function(y, s.integers({Dim::batch(), 1}, 1, 9, DType::I64), {})};
          },
          1e-4, false};
}

std::vector<Sample> samples_add() {
  return {
      {"same",
       [](SampleBuilder& s) {
         return std::vector{add(s.input({Dim::batch(), 5}), s.input({Dim::batch(), 5}))};
       }},
      {"bias",
       [](SampleBuilder& s) {
         return std::vector{add(s.input({Dim::batch(), 3, 7}), s.input({7}))};
       }},
      {"channels",
       [](SampleBuilder& s) {
         return std::vector{add(s.input({Dim::batch(), 3, 7}), s.input({3, 1}))};
       }},
      {"both broadcast",
       [](SampleBuilder& s) {
         return std::vector{add(s.input({Dim::batch(), 1, 5}), s.input({3, 1}))};
       }},
      {"number",
       [](SampleBuilder& s) {
         return std::vector{add(s.input({}), s.input({Dim::batch(), 9}))};
       }},
      {"twice",
       [](SampleBuilder& s) {
         const Tensor x = s.input({Dim::batch(), 5});
         return std::vector{add(x, x)};
       }},
      integers("integers", add),
  };
}
std::vector<Sample> samples_sub() {
  return {{"same",
           [](SampleBuilder& s) {
             return std::vector{sub(s.input({Dim::batch(), 5}), s.input({Dim::batch(), 5}))};
           }},
          {"rows",
           [](SampleBuilder& s) {
             return std::vector{sub(s.input({Dim::batch(), 5}), s.input({Dim::batch(), 1}))};
           }},
          integers("integers", sub)};
}
std::vector<Sample> samples_mul() {
  return {{"same",
           [](SampleBuilder& s) {
             return std::vector{mul(s.input({Dim::batch(), 5}), s.input({Dim::batch(), 5}))};
           }},
          {"channels",
           [](SampleBuilder& s) {
             return std::vector{mul(s.input({1, 3, 1}), s.input({Dim::batch(), 3, 7}))};
           }},
          integers("integers", mul)};
}
std::vector<Sample> samples_div() {
  return {{"same",
           [](SampleBuilder& s) {
             return std::vector{div(s.input({Dim::batch(), 5}), s.input({Dim::batch(), 5}, 1, 2))};
           }},
          {"bias",
           [](SampleBuilder& s) {
             return std::vector{div(s.input({Dim::batch(), 3, 5}), s.input({5}, 1, 2))};
           }},
          {"integers",  // floats round other quotients in another way
           [](SampleBuilder& s) {
             const Tensor x = s.integers({Dim::batch(), 3, 5}, -90, 90), y = s.integers({5}, 1, 9);
             const Tensor u = s.integers({Dim::batch(), 7}, -90, 90, DType::I64);
             const Tensor v = s.integers({Dim::batch(), 1}, -9, -1, DType::I64);
             return std::vector{div(mul(x, y), y), div(mul(u, v), v), x * 7 / 7};
           },
           1e-4, false}};
}
std::vector<Sample> samples_pow() {
  return {{"same",
           [](SampleBuilder& s) {
             return std::vector{pow(s.input({Dim::batch(), 5}, 0.5, 2), s.input({Dim::batch(), 5}, -2, 2))};
           }},
          {"square", [](SampleBuilder& s) {
             return std::vector{pow(s.input({Dim::batch(), 3, 5}), s.graph().scalar(2))};
           }}};
}
// Operands far enough apart that the small shifts of the gradient check never swap the smaller one.
template <Tensor (*function)(Tensor, Tensor, Name)>
std::vector<Sample> samples_chosen() {
  return {{"first smaller",
           [](SampleBuilder& s) {
             return std::vector{function(s.input({Dim::batch(), 5}, -1, -0.1), s.input({Dim::batch(), 5}, 0.1, 1), {})};
           }},
          {"second smaller",
           [](SampleBuilder& s) {
             return std::vector{function(s.input({Dim::batch(), 3, 7}, 0.1, 1), s.input({7}, -1, -0.1), {})};
           }},
          {"mixed",
           [](SampleBuilder& s) {
             return std::vector{function(s.input({Dim::batch(), 9}), s.input({9}), {})};
           },
           1e-4, false},
          integers("integers", function)};
}
std::vector<Sample> samples_scale() {
  return {{"factor",
           [](SampleBuilder& s) {
             return std::vector{scale(s.input({Dim::batch(), 11}), 2.5)};
           }},
          {"offset",
           [](SampleBuilder& s) {
             return std::vector{scale(s.input({Dim::batch(), 3, 3}), -1, 0.75)};
           }},
          {"integers",
           [](SampleBuilder& s) {
             return std::vector{1 - s.integers({Dim::batch(), 5}, -9, 9) * 3,
                                s.integers({Dim::batch(), 5}, -9, 9, DType::I64) + 1};
           },
           1e-4, false}};
}

const Op kAdd{.name = "add",
              .storable = true,
              .infer = infer_broadcast,
              .types = {kNumbers},
              .grad = grad_add,
              .prepare = prepare_pair<tile_of_add, Sum>,
              .samples = samples_add,
              .traits = map_traits(0b11),
              .tile = tile_of_add,
              .onnx = "Add",
              .fusion = {.sums = true}};
const Op kSub{.name = "sub",
              .storable = true,
              .infer = infer_broadcast,
              .types = {kNumbers},
              .grad = grad_sub,
              .prepare = prepare_pair<tile_of_sub, Difference>,
              .samples = samples_sub,
              .traits = map_traits(0b11),
              .tile = tile_of_sub,
              .onnx = "Sub"};
const Op kMul{.name = "mul",
              .storable = true,
              .infer = infer_broadcast,
              .types = {kNumbers},
              .grad = grad_mul,
              .prepare = prepare_pair<tile_of_mul, Product>,
              .samples = samples_mul,
              .traits = map_traits(0b11),
              .tile = tile_of_mul,
              .onnx = "Mul"};
const Op kDiv{.name = "div",
              .storable = true,
              .infer = infer_broadcast,
              .types = {kNumbers},
              .grad = grad_div,
              .prepare = prepare_pair<tile_of_div, Quotient>,
              .samples = samples_div,
              .traits = map_traits(0b11),
              .tile = tile_of_div,
              .onnx = "Div"};
const Op kPow{.name = "pow",
              .storable = true,
              .infer = infer_broadcast,
              .types = {kFloats},
              .grad = grad_pow,
              .prepare = prepare_tile<tile_of_pow>,
              .samples = samples_pow,
              .traits = map_traits(0b11),
              .tile = tile_of_pow,
              .onnx = "Pow"};
const Op kMinimum{.name = "minimum",
                  .storable = true,
                  .infer = infer_broadcast,
                  .types = {kNumbers},
                  .grad = grad_minimum,
                  .prepare = prepare_pair<tile_of_minimum, Smaller>,
                  .samples = samples_chosen<minimum>,
                  .traits = map_traits(0b11),
                  .tile = tile_of_minimum,
                  .onnx = "Min"};
const Op kMaximum{.name = "maximum",
                  .storable = true,
                  .infer = infer_broadcast,
                  .types = {kNumbers},
                  .grad = grad_maximum,
                  .prepare = prepare_pair<tile_of_maximum, Larger>,
                  .samples = samples_chosen<maximum>,
                  .traits = map_traits(0b11),
                  .tile = tile_of_maximum,
                  .onnx = "Max"};
const Op kScale{.name = "scale",
                .storable = true,
                .infer = infer_scale,
                .types = {kNumbers},
                .grad = grad_scale,
                .prepare = prepare_scale,
                .samples = samples_scale,
                .traits = map_traits(0b1),
                .tile = tile_of_scale};

}  // namespace

Tensor add(Tensor a, Tensor b, Name name) { return apply(kAdd, {a, b}, {}, name); }
Tensor sub(Tensor a, Tensor b, Name name) { return apply(kSub, {a, b}, {}, name); }
Tensor mul(Tensor a, Tensor b, Name name) { return apply(kMul, {a, b}, {}, name); }
Tensor div(Tensor a, Tensor b, Name name) { return apply(kDiv, {a, b}, {}, name); }
Tensor pow(Tensor a, Tensor b, Name name) { return apply(kPow, {a, b}, {}, name); }
Tensor minimum(Tensor a, Tensor b, Name name) { return apply(kMinimum, {a, b}, {}, name); }
Tensor maximum(Tensor a, Tensor b, Name name) { return apply(kMaximum, {a, b}, {}, name); }

Tensor scale(Tensor x, double factor, double offset, Name name) {
  Attrs attrs{{"factor", factor}};
  if (offset != 0) attrs.set("offset", offset);
  return apply(kScale, {x}, attrs, name);
}

Tensor quotient(Tensor x, double number, Name name) {
  if (!is_large_integer(x.dtype())) return scale(x, 1 / number, 0, name);
  if (!is_whole(number) || number == 0)
    throw Error(fmt::format("{} can't be divided by {}; cast it to f32 first", to_string(x.type()), number));
  return apply(kScale, {x}, {{"factor", 1.0}, {"divisor", static_cast<int64_t>(number)}}, name);
}

OpList arithmetic_ops() { return {&kAdd, &kSub, &kMul, &kDiv, &kPow, &kMinimum, &kMaximum, &kScale}; }

}  // namespace plimsoll::ops
#endif
