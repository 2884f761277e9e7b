// Conversion of runs of elements to and from floats inside a step: integers saturate. Files are read by
// `data/convert.cpp`, which refuses what does not fit.
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tile_convert.cpp"
#include "base/half.h"
#include "hwy/foreach_target.h"
#include "kernels/tile_map-inl.h"

#include "hwy/cache_control.h"

#ifndef PLIMSOLL_KERNELS_TILE_CONVERT_ONCE
#define PLIMSOLL_KERNELS_TILE_CONVERT_ONCE
namespace plimsoll::kernels {
namespace {

// Rounds to nearest, ties to even; what is too large becomes infinite, a NaN stays one.
[[maybe_unused]] uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000U, magnitude = bits & 0x7fffffffU;
  uint32_t half = 0;
  if (magnitude > 0x7f800000U)
    half = 0x7e00U | (magnitude >> 13 & 0x3ffU);
  else if (magnitude >= 0x477ff000U)  // 65520, half way to what would follow the largest half
    half = 0x7c00U;
  else if (magnitude < 0x38800000U)  // subnormal: 1/2 has the same last place, so that the addition rounds
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - std::bit_cast<uint32_t>(0.5F);
  else
    half = (magnitude - (112U << 23) + 0xfffU + (magnitude >> 13 & 1U)) >> 13;
  return static_cast<uint16_t>(sign | half);
}

}  // namespace
}  // namespace plimsoll::kernels
#endif

// Highway's own conversion, where the processor has none, takes infinities for numbers.
#undef PLIMSOLL_CONVERTS_HALVES
#define PLIMSOLL_CONVERTS_HALVES (!HWY_ARCH_X86 || HWY_TARGET <= HWY_AVX2)

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {

// Simple loops on purpose: compilers turn them into vectors of whatever target this is compiled for.
template <class T>
HWY_INLINE void load_integers(const void* from, float* to, size_t count) {
  const auto* x = static_cast<const T*>(from);
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<float>(x[i]);
}
void load_i32(const void* from, float* to, size_t count) { load_integers<int32_t>(from, to, count); }
void load_i64(const void* from, float* to, size_t count) { load_integers<int64_t>(from, to, count); }
void load_u8(const void* from, float* to, size_t count) { load_integers<uint8_t>(from, to, count); }
void load_i8(const void* from, float* to, size_t count) { load_integers<int8_t>(from, to, count); }
void load_f32(const void* from, float* to, size_t count) { std::memcpy(to, from, count * sizeof(float)); }

void load_bf16(const void* from, float* to, size_t count) {
  const auto* x = static_cast<const uint16_t*>(from);
  for (size_t i = 0; i < count; ++i) to[i] = from_bf16(x[i]);
}

void load_f16(const void* from, float* to, size_t count) {
#if PLIMSOLL_CONVERTS_HALVES
  const FloatTag d;
  const hn::Rebind<hwy::float16_t, FloatTag> half;
  const size_t lanes = hn::Lanes(d);
  const auto* x = static_cast<const hwy::float16_t*>(from);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::PromoteTo(d, hn::LoadU(half, x + i)), d, to + i);
  if (i == count) return;
  HWY_ALIGN hwy::float16_t rest[hn::MaxLanes(FloatTag())] = {};
  HWY_ALIGN float wide[hn::MaxLanes(FloatTag())];
  std::memcpy(rest, x + i, (count - i) * sizeof *x);
  hn::Store(hn::PromoteTo(d, hn::Load(half, rest)), d, wide);
  std::memcpy(to + i, wide, (count - i) * sizeof(float));
#else
  const auto* x = static_cast<const uint16_t*>(from);
  for (size_t i = 0; i < count; ++i) to[i] = from_f16(x[i]);
#endif
}

// The largest float below the end of T's range stands for its maximum where that is no float itself.
template <class T>
HWY_INLINE void store_integers(const float* from, void* to, size_t count) {
  constexpr auto kLow = static_cast<float>(std::numeric_limits<T>::min());
  constexpr T kHalf = std::numeric_limits<T>::max() / 2 + 1;
  constexpr auto kEnd = static_cast<float>(kHalf) * 2.0F;  // one past the maximum
  auto* y = static_cast<T*>(to);
  for (size_t i = 0; i < count; ++i) {
    const float x = from[i];
    const bool inside = x > kLow && x < kEnd;
    const T edge = x >= kEnd ? std::numeric_limits<T>::max() : x <= kLow ? std::numeric_limits<T>::min() : T{0};
    y[i] = inside ? static_cast<T>(x) : edge;
  }
}
void store_i32(const float* from, void* to, size_t count) { store_integers<int32_t>(from, to, count); }
void store_i64(const float* from, void* to, size_t count) { store_integers<int64_t>(from, to, count); }
void store_u8(const float* from, void* to, size_t count) { store_integers<uint8_t>(from, to, count); }
void store_i8(const float* from, void* to, size_t count) { store_integers<int8_t>(from, to, count); }
void store_f32(const float* from, void* to, size_t count) { std::memcpy(to, from, count * sizeof(float)); }

void store_bool(const float* from, void* to, size_t count) {
  auto* y = static_cast<uint8_t*>(to);
  for (size_t i = 0; i < count; ++i) y[i] = from[i] != 0 ? 1 : 0;
}

void store_bf16(const float* from, void* to, size_t count) {
  auto* y = static_cast<uint16_t*>(to);
  for (size_t i = 0; i < count; ++i) y[i] = to_bf16(from[i]);
}

void store_f16(const float* from, void* to, size_t count) {
#if PLIMSOLL_CONVERTS_HALVES
  const FloatTag d;
  const hn::Rebind<hwy::float16_t, FloatTag> half;
  const size_t lanes = hn::Lanes(d);
  auto* y = static_cast<hwy::float16_t*>(to);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::DemoteTo(half, hn::LoadU(d, from + i)), half, y + i);
  if (i == count) return;
  HWY_ALIGN float rest[hn::MaxLanes(FloatTag())] = {};
  HWY_ALIGN hwy::float16_t narrow[hn::MaxLanes(FloatTag())];
  std::memcpy(rest, from + i, (count - i) * sizeof(float));
  hn::Store(hn::DemoteTo(half, hn::Load(d, rest)), half, narrow);
  std::memcpy(y + i, narrow, (count - i) * sizeof *y);
#else
  auto* y = static_cast<uint16_t*>(to);
  for (size_t i = 0; i < count; ++i) y[i] = to_f16(from[i]);
#endif
}

// The target must be aligned to a vector.
void stream_f32(const float* from, void* to, size_t count) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  auto* y = static_cast<float*>(to);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::Stream(hn::LoadU(d, from + i), d, y + i);
  std::memcpy(y + i, from + i, (count - i) * sizeof(float));
}

}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels {

HWY_EXPORT(load_f32);
HWY_EXPORT(load_f16);
HWY_EXPORT(load_bf16);
HWY_EXPORT(load_i32);
HWY_EXPORT(load_i64);
HWY_EXPORT(load_u8);
HWY_EXPORT(load_i8);
HWY_EXPORT(store_f32);
HWY_EXPORT(store_f16);
HWY_EXPORT(store_bf16);
HWY_EXPORT(store_i32);
HWY_EXPORT(store_i64);
HWY_EXPORT(store_u8);
HWY_EXPORT(store_i8);
HWY_EXPORT(store_bool);
HWY_EXPORT(stream_f32);

LoadFn load_of(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return PLIMSOLL_BEST(load_f32);
    case DType::F16:
      return PLIMSOLL_BEST(load_f16);
    case DType::BF16:
      return PLIMSOLL_BEST(load_bf16);
    case DType::I32:
      return PLIMSOLL_BEST(load_i32);
    case DType::I64:
      return PLIMSOLL_BEST(load_i64);
    case DType::I8:
      return PLIMSOLL_BEST(load_i8);
    case DType::U8:
    case DType::Bool:
      break;
  }
  return PLIMSOLL_BEST(load_u8);
}

StoreFn store_of(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return PLIMSOLL_BEST(store_f32);
    case DType::F16:
      return PLIMSOLL_BEST(store_f16);
    case DType::BF16:
      return PLIMSOLL_BEST(store_bf16);
    case DType::I32:
      return PLIMSOLL_BEST(store_i32);
    case DType::I64:
      return PLIMSOLL_BEST(store_i64);
    case DType::I8:
      return PLIMSOLL_BEST(store_i8);
    case DType::U8:
      return PLIMSOLL_BEST(store_u8);
    case DType::Bool:
      break;
  }
  return PLIMSOLL_BEST(store_bool);
}

StoreFn streaming_store() { return PLIMSOLL_BEST(stream_f32); }

}  // namespace plimsoll::kernels
#endif
