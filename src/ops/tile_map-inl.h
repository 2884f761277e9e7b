// For the vector code of element-wise operators: applies a function of vectors to all of a tile. Included once for each
// target.
#if defined(PLIMSOLL_TILE_MAP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_TILE_MAP_INL_H
#undef PLIMSOLL_TILE_MAP_INL_H
#else
#define PLIMSOLL_TILE_MAP_INL_H
#endif

#include <cstring>

#include "hwy/highway.h"
#include "ops/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using FloatTag = hn::ScalableTag<float>;
using Floats = hn::Vec<FloatTag>;

// The rest of a tile goes through the same vectors as the whole of it, so that an element's bits never depend on its
// place.
template <int N, class Function>
HWY_INLINE void map_run(const float* const* in, float* out, size_t count, const Function& f) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    if constexpr (N == 1) hn::StoreU(f(hn::LoadU(d, in[0] + i)), d, out + i);
    if constexpr (N == 2) hn::StoreU(f(hn::LoadU(d, in[0] + i), hn::LoadU(d, in[1] + i)), d, out + i);
    if constexpr (N == 3)
      hn::StoreU(f(hn::LoadU(d, in[0] + i), hn::LoadU(d, in[1] + i), hn::LoadU(d, in[2] + i)), d, out + i);
  }
}

template <int N, class Function>
HWY_INLINE void map(const Tile& t, const Function& f) {
  const size_t lanes = hn::Lanes(FloatTag());
  const size_t whole = t.count / lanes * lanes;
  map_run<N>(t.in, t.out, whole, f);
  if (whole == t.count) return;
  HWY_ALIGN float rest[N][hn::MaxLanes(FloatTag())] = {};
  const float* in[N];
  for (int i = 0; i < N; ++i) {
    std::memcpy(rest[i], t.in[i] + whole, (t.count - whole) * sizeof(float));
    in[i] = rest[i];
  }
  map_run<N>(in, rest[0], lanes, f);
  std::memcpy(t.out + whole, rest[0], (t.count - whole) * sizeof(float));
}

}  // namespace plimsoll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

// The version of an exported tile function that suits this machine best.
#ifndef PLIMSOLL_BEST
#define PLIMSOLL_BEST(function) \
  (hwy::GetChosenTarget().Update(hwy::SupportedTargets()), &HWY_DYNAMIC_DISPATCH(function))
#endif

#endif
