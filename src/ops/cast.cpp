// cast: the same numbers as another element type. Integers are rounded towards zero and saturate.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cast.cpp"
#include "hwy/foreach_target.h"
#include "kernels/tile_map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;

// All the work is done by loading and storing.
void cast_tile(const Tile& t) {
  if (t.out != t.in[0]) map<1>(t, [](Floats x) HWY_ATTR { return x; });
}

}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

PLIMSOLL_TILE(cast)

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  n.out = {{parse_dtype(n.attrs.s("dtype")), n.in[0].shape}};
}

void grad(Backward& b) { b.give(0, cast(b.dy[0], b.x[0].dtype())); }

template <class From, class To>
std::shared_ptr<Kernel> make_exact(int64_t count, bool to_bool) {
  return make_kernel([=](const Args& args) {
    const auto* x = args.input<From>(0);
    auto* y = args.output<To>(0);
    parallel_for(count, 16 * kTile, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t low = to_bool ? 0 : static_cast<int64_t>(std::numeric_limits<To>::min());
        const int64_t high = to_bool ? 1 : static_cast<int64_t>(std::numeric_limits<To>::max());
        const auto number = static_cast<int64_t>(x[i]);
        y[i] = static_cast<To>(to_bool ? (number != 0 ? 1 : 0) : std::clamp(number, low, high));
      }
    });
  });
}

template <class From>
std::shared_ptr<Kernel> make_exact(DType to, int64_t count) {
  if (to == DType::I32) return make_exact<From, int32_t>(count, false);
  if (to == DType::I64) return make_exact<From, int64_t>(count, false);
  if (to == DType::I8) return make_exact<From, int8_t>(count, false);
  return make_exact<From, uint8_t>(count, to == DType::Bool);
}

Prepared prepare(const Facts& facts) {
  const DType from = facts.in[0].dtype;
  const DType to = facts.out[0].dtype;
  // Floats hold all whole numbers only up to 2^24, so that casts between integers must not go through floats.
  const int64_t count = facts.out[0].count();
  if (from == DType::I32 && !is_float(to)) return {.kernel = make_exact<int32_t>(to, count)};
  if (from == DType::I64 && !is_float(to)) return {.kernel = make_exact<int64_t>(to, count)};
  return prepare_tile(facts, *tile_of_cast());
}

template <DType from, DType to>
Sample sample(const char* name) {
  return {name,
          [](SampleBuilder& s) {
            return std::vector{cast(s.integers({Dim::batch(), 7}, is_float(from) ? -3 : 0, 100, from), to)};
          },
          1e-4, false};
}

std::vector<Sample> samples() {
  return {{"half and back",
           [](SampleBuilder& s) {
             return std::vector{cast(cast(s.input({Dim::batch(), 3, 5}), DType::F16), DType::F32)};
           },
           1e-3, false},
          {"bfloat and back",
           [](SampleBuilder& s) {
             return std::vector{cast(cast(s.input({Dim::batch(), 11}), DType::BF16), DType::F32)};
           },
           1e-2, false},
          sample<DType::I32, DType::F32>("i32 to f32"),
          sample<DType::I64, DType::I32>("i64 to i32"),
          sample<DType::I32, DType::I64>("i32 to i64"),
          sample<DType::U8, DType::F32>("u8 to f32"),
          sample<DType::I8, DType::Bool>("i8 to bool"),
          sample<DType::F32, DType::I8>("f32 to i8"),
          sample<DType::F32, DType::I64>("f32 to i64")};
}

const Op kCast{.name = "cast",
               .storable = true,
               .infer = infer,
               .types = {kAnyType},
               .grad = grad,
               .prepare = prepare,
               .samples = samples,
               .traits = map_traits(0b1),
               .tile = tile_of_cast,
               .onnx = "Cast",
               .fusion = {.joins_chains = false}};  // loads and stores of a chain convert already

}  // namespace

Tensor cast(Tensor x, DType dtype, Name name) {
  if (x.dtype() == dtype) return x;
  return apply(kCast, {x}, {{"dtype", std::string(name_of(dtype))}}, name);
}

OpList cast_ops() { return {&kCast}; }

}  // namespace plimsoll::ops
#endif
