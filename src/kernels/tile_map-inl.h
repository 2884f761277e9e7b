// For the vector code of element-wise operators: applies a function of vectors to all of a tile. Included once for each
// target.
#if defined(PLIMSOLL_TILE_MAP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_TILE_MAP_INL_H
#undef PLIMSOLL_TILE_MAP_INL_H
#else
#define PLIMSOLL_TILE_MAP_INL_H
#endif

#include <cstring>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using FloatTag = hn::ScalableTag<float>;
using Floats = hn::Vec<FloatTag>;

// Whether the next tiles are prefetched: the processor's own prefetching stops at the end of a page, and a function
// that takes about as long as its memory traffic can't hide that pause.
enum class Fetch : uint8_t { No, Ahead };

HWY_INLINE void put(Floats v, float* to, bool streams) {
  const FloatTag d;
  if (streams)
    hn::Stream(v, d, to);
  else
    hn::StoreU(v, d, to);
}

template <int N, Fetch kFetch, class Function>
HWY_INLINE void map_run(const float* const* in, float* out, size_t count, bool streams, const Function& f) {
  constexpr size_t kAhead = 512;
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    if constexpr (kFetch == Fetch::Ahead) {
      for (int k = 0; k < N; ++k) hwy::Prefetch(in[k] + i + kAhead);
      if (!streams) hwy::Prefetch(out + i + kAhead);
    }
    if constexpr (N == 1) put(f(hn::LoadU(d, in[0] + i)), out + i, streams);
    if constexpr (N == 2) put(f(hn::LoadU(d, in[0] + i), hn::LoadU(d, in[1] + i)), out + i, streams);
    if constexpr (N == 3)
      put(f(hn::LoadU(d, in[0] + i), hn::LoadU(d, in[1] + i), hn::LoadU(d, in[2] + i)), out + i, streams);
  }
}

// The last elements of a tile go through the same vector code as the others, so that an element's bits never depend on
// its place.
template <int N, Fetch kFetch = Fetch::No, class Function>
HWY_INLINE void map(const Tile& t, const Function& f) {
  const size_t lanes = hn::Lanes(FloatTag());
  const size_t whole = t.count / lanes * lanes;
  map_run<N, kFetch>(t.in, t.out, whole, t.streams, f);
  if (whole == t.count) return;
  HWY_ALIGN float rest[N][hn::MaxLanes(FloatTag())] = {};
  const float* in[N];
  for (int i = 0; i < N; ++i) {
    std::memcpy(rest[i], t.in[i] + whole, (t.count - whole) * sizeof(float));
    in[i] = rest[i];
  }
  map_run<N, Fetch::No>(in, rest[0], lanes, false, f);
  std::memcpy(t.out + whole, rest[0], (t.count - whole) * sizeof(float));
}

}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#ifndef PLIMSOLL_BEST
// The version of an exported function that suits this machine best.
#define PLIMSOLL_BEST(function) \
  (hwy::GetChosenTarget().Update(hwy::SupportedTargets()), &HWY_DYNAMIC_DISPATCH(function))
// tile_of_NAME(): the tile operator that runs NAME_tile; what follows are the other members of TileOp.
#define PLIMSOLL_TILE(name, ...)                                                   \
  HWY_EXPORT(name##_tile);                                                         \
  const TileOp* tile_of_##name() {                                                 \
    static const TileOp op{PLIMSOLL_BEST(name##_tile) __VA_OPT__(, ) __VA_ARGS__}; \
    return &op;                                                                    \
  }
#endif

#endif
