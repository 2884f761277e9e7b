// where: the element of a where the condition is true, else that of b.
#include "kernels/integer_map.h"
#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/where.cpp"
#include "hwy/foreach_target.h"
#include "kernels/tile_map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;

void where_tile(const Tile& t) {
  map<3>(t, [](Floats condition, Floats a, Floats b)
                HWY_ATTR { return hn::IfThenElse(hn::Ne(condition, hn::Zero(FloatTag())), a, b); });
}

}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

PLIMSOLL_TILE(where)

void infer(Infer& n) {
  n.expect_inputs(3, 3);
  n.out = {{common_dtype(n, 1, 2), broadcast_inputs(n, 0)}};
}

void grad(Backward& b) {
  const Tensor zero = b.dy[0].graph().scalar(0);
  if (b.wanted[1]) b.give(1, sum_to(where(b.x[0], b.dy[0], zero), b.x[1].shape()));
  if (b.wanted[2]) b.give(2, sum_to(where(b.x[0], zero, b.dy[0]), b.x[2].shape()));
}

template <class Condition, class T>
Prepared prepare_integers(const Facts& facts) {
  const BroadcastWalk<3> walk(facts);
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* condition = args.input<Condition>(0);
            const auto* a = args.input<T>(1);
            const auto* b = args.input<T>(2);
            auto* y = args.output<T>(0);
            walk.run([&](int64_t i, int64_t count, const auto& at, const auto& steps) {
              for (int64_t k = 0; k < count; ++k)
                y[i + k] = condition[at[0] + k * steps[0]] != 0 ? a[at[1] + k * steps[1]] : b[at[2] + k * steps[2]];
            });
          })};
}

template <class T>
Prepared prepare_integers(const Facts& facts) {
  if (facts.in[0].dtype == DType::I64) return prepare_integers<int64_t, T>(facts);
  if (facts.in[0].dtype == DType::I32) return prepare_integers<int32_t, T>(facts);
  return prepare_integers<uint8_t, T>(facts);
}

Prepared prepare(const Facts& facts) {
  if (facts.out[0].dtype == DType::I32) return prepare_integers<int32_t>(facts);
  if (facts.out[0].dtype == DType::I64) return prepare_integers<int64_t>(facts);
  return prepare_tile(facts, *tile_of_where());
}

std::vector<Sample> samples() {
  return {{"same",
           [](SampleBuilder& s) {
             const Tensor condition = s.integers({Dim::batch(), 5}, 0, 2, DType::Bool);
             return std::vector{where(condition, s.input({Dim::batch(), 5}), s.input({Dim::batch(), 5}))};
           }},
          {"broadcast",
           [](SampleBuilder& s) {
             const Tensor condition = s.integers({Dim::batch(), 1, 5}, 0, 2, DType::Bool);
             return std::vector{where(condition, s.input({3, 1}), s.input({}))};
           }},
          {"condition broadcasts", [](SampleBuilder& s) {
             const Tensor condition = s.integers({7}, 0, 2, DType::I32);
             return std::vector{where(condition, s.input({Dim::batch(), 3, 7}), s.input({Dim::batch(), 3, 1}))};
           }}};
}

const Op kWhere{.name = "where",
                .storable = true,
                .infer = infer,
                .types = {kWholeTypes, kAnyType},
                .grad = grad,
                .prepare = prepare,
                .samples = samples,
                .traits = map_traits(0b110),
                .tile = tile_of_where,
                .onnx = "Where"};

}  // namespace

Tensor where(Tensor condition, Tensor a, Tensor b, Name name) { return apply(kWhere, {condition, a, b}, {}, name); }

OpList where_ops() { return {&kWhere}; }

}  // namespace plimsoll::ops
#endif
