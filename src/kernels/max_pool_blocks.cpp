#include "kernels/max_pool_blocks.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/max_pool_blocks.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A block has 8 or 16 channels; on narrow machines it takes several vectors.
using Channels = hn::CappedTag<float, 8>;
using Places = hn::RebindToSigned<Channels>;
using PlaceBytes = hn::Rebind<uint8_t, Channels>;

// Calls visitor(place in the window, offset of the pixel in its plane) for the pixels of one window that are not
// padding.
template <class Visitor>
HWY_INLINE void for_window(const PoolGeometry& g, int64_t row, int64_t column, int64_t block, Visitor& visitor) {
  const int64_t top = row * g.window.strides[0] - g.window.pads[0];
  const int64_t left = column * g.window.strides[1] - g.window.pads[1];
  const int64_t first_row = std::max<int64_t>(0, -top);
  const int64_t last_row = std::min(g.size[0], g.image[0] - top);
  const int64_t first_column = std::max<int64_t>(0, -left);
  const int64_t last_column = std::min(g.size[1], g.image[1] - left);
  for (int64_t i = first_row; i < last_row; ++i)
    for (int64_t k = first_column; k < last_column; ++k)
      visitor(static_cast<int32_t>(i * g.size[1] + k), ((top + i) * g.image[1] + left + k) * block);
}

// The same for a window of kSize x kSize without padding: unrolled.
template <int kSize, class Visitor>
HWY_INLINE void for_whole_window(int64_t corner, int64_t line, int64_t block, Visitor& visitor) {
  for (int i = 0; i < kSize; ++i)
    for (int k = 0; k < kSize; ++k) visitor(i * kSize + k, corner + i * line + k * block);
}

// Calls edge(row, column) for each window, or inner(result, corner, count) for `count` of them beside each other that
// see no padding: where their results and their first pixel lie. kSize 0: a size that has no code of its own.
template <int kSize, class Edge, class Inner>
HWY_INLINE void for_windows(const PoolGeometry& g, int64_t block, const Edge& edge, const Inner& inner) {
  const auto [down, across] = g.window.strides;
  const int64_t left = g.window.pads[1];
  const int64_t first = (left + across - 1) / across;
  const int64_t end = std::min(g.result[1], (g.image[1] + left - kSize) / across + 1);
  for (int64_t row = 0; row < g.result[0]; ++row) {
    const int64_t top = row * down - g.window.pads[0];
    const bool is_inner = kSize > 0 && top >= 0 && top + kSize <= g.image[0] && first < end;
    for (int64_t column = 0; column < (is_inner ? first : g.result[1]); ++column) edge(row, column);
    if (!is_inner) continue;
    inner((row * g.result[1] + first) * block, (top * g.image[1] + first * across - left) * block, end - first);
    for (int64_t column = end; column < g.result[1]; ++column) edge(row, column);
  }
}

// Prefetches the pixels of the windows below these: rows of an image are too short for the processor's own prefetching.
template <int kSize>
HWY_INLINE void fetch_below(const float* corner, int64_t line) {
  for (int i = 0; i < kSize; ++i) hwy::Prefetch(corner + (kSize + i) * line);
}

// Calls f with the size of square windows that are worth code of their own, as a constant.
template <class Function>
HWY_INLINE void with_size(const PoolGeometry& g, const Function& f) {
  if (g.size == std::array<int64_t, 2>{2, 2}) return f(std::integral_constant<int, 2>());
  if (g.size == std::array<int64_t, 2>{3, 3}) return f(std::integral_constant<int, 3>());
  return f(std::integral_constant<int, 0>());
}

// The visitors are not lambdas, whose captures the compiler would keep in memory instead of registers.
struct Largest {
  const float* x;
  hn::Vec<Channels> best;
  hn::Vec<Places> place;

  HWY_INLINE explicit Largest(const float* from)
      : x(from), best(hn::Set(Channels(), -std::numeric_limits<float>::infinity())), place(hn::Zero(Places())) {}
  HWY_INLINE void operator()(int32_t k, int64_t at) {
    const auto value = hn::LoadU(Channels(), x + at);
    // The first place of the window; not visited where that is padding.
    if (k == 0) {
      best = value;
      return;
    }
    // A NaN wins, and stays, so that bad numbers are seen.
    const auto wins = hn::Or(hn::Gt(value, best), hn::IsNaN(value));
    best = hn::IfThenElse(wins, value, best);
    place = hn::IfThenElse(hn::RebindMask(Places(), wins), hn::Set(Places(), k), place);
  }
};

// kShares: windows may overlap, so that gradients add up.
template <bool kShares>
struct Spread {
  float* dx;
  hn::Vec<Channels> gradient;
  hn::Vec<Places> place;

  HWY_INLINE void operator()(int32_t k, int64_t at) const {
    const Channels d;
    const auto is_here = hn::RebindMask(d, hn::Eq(place, hn::Set(Places(), k)));
    const auto here = hn::IfThenElseZero(is_here, gradient);
    hn::StoreU(kShares ? hn::Add(hn::LoadU(d, dx + at), here) : here, d, dx + at);
  }
};

template <int kSize>
void pool_windows(const PoolGeometry& g, int64_t block, const float* x, float* y, uint8_t* indices) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Channels()));
  const auto store = [&](const Largest& largest, int64_t to) HWY_ATTR {
    hn::StoreU(largest.best, Channels(), y + to);
    if (indices != nullptr) hn::StoreU(hn::DemoteTo(PlaceBytes(), largest.place), PlaceBytes(), indices + to);
  };
  for_windows<kSize>(
      g, block,
      [&](int64_t row, int64_t column) HWY_ATTR {
        for (int64_t c = 0; c < block; c += lanes) {
          Largest largest(x + c);
          for_window(g, row, column, block, largest);
          store(largest, (row * g.result[1] + column) * block + c);
        }
      },
      [&](int64_t to, int64_t corner, int64_t count) HWY_ATTR {
        const int64_t step = g.window.strides[1] * block;
        const int64_t line = g.image[1] * block;
        for (int64_t i = 0; i < count; ++i, to += block, corner += step)
          for (int64_t c = 0; c < block; c += lanes) {
            Largest largest(x + c);
            fetch_below<kSize>(x + corner + c, line);
            for_whole_window<kSize>(corner, line, block, largest);
            store(largest, to + c);
          }
      });
}

template <int kSize, bool kShares>
void spread_windows(const PoolGeometry& g, int64_t block, const float* dy, const uint8_t* indices, float* dx) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Channels()));
  const auto load = [&](int64_t from, int64_t c) HWY_ATTR {
    const auto place = hn::PromoteTo(Places(), hn::LoadU(PlaceBytes(), indices + from + c));
    float* to = dx + c;  // where clang-tidy sees that it is written through
    return Spread<kShares>{to, hn::LoadU(Channels(), dy + from + c), place};
  };
  for_windows<kSize>(
      g, block,
      [&](int64_t row, int64_t column) HWY_ATTR {
        for (int64_t c = 0; c < block; c += lanes) {
          Spread<kShares> spread = load((row * g.result[1] + column) * block, c);
          for_window(g, row, column, block, spread);
        }
      },
      [&](int64_t from, int64_t corner, int64_t count) HWY_ATTR {
        const int64_t step = g.window.strides[1] * block;
        const int64_t line = g.image[1] * block;
        for (int64_t i = 0; i < count; ++i, from += block, corner += step)
          for (int64_t c = 0; c < block; c += lanes) {
            Spread<kShares> spread = load(from, c);
            fetch_below<kSize>(dx + corner + c, line);
            for_whole_window<kSize>(corner, line, block, spread);
          }
      });
}

void pool_plane(const PoolGeometry& g, int64_t block, const float* x, float* y, uint8_t* indices) {
  with_size(g, [&](auto size) HWY_ATTR { pool_windows<size()>(g, block, x, y, indices); });
}

void spread_plane(const PoolGeometry& g, int64_t block, const float* dy, const uint8_t* indices, float* dx) {
  const auto& strides = g.window.strides;
  const bool shares = strides[0] < g.size[0] || strides[1] < g.size[1];
  const bool covers_all = !shares && g.size == strides && g.window.pads == std::array<int64_t, 4>{} &&
                          g.result[0] * strides[0] == g.image[0] && g.result[1] * strides[1] == g.image[1];
  if (!covers_all) std::fill(dx, dx + g.image[0] * g.image[1] * block, 0.0F);
  with_size(g, [&](auto size) HWY_ATTR {
    if (shares)
      spread_windows<size(), true>(g, block, dy, indices, dx);
    else
      spread_windows<size(), false>(g, block, dy, indices, dx);
  });
}

}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace plimsoll::kernels {
namespace {

HWY_EXPORT(pool_plane);
HWY_EXPORT(spread_plane);

int64_t pixels(std::array<int64_t, 2> size) { return size[0] * size[1]; }

}  // namespace

void max_pool_blocks(const PoolGeometry& g, const ImageOrder& order, const float* x, float* y,
                     uint8_t* indices) noexcept {
  const int64_t in = pixels(g.image) * order.block();
  const int64_t out = pixels(g.result) * order.block();
  parallel_for(order.planes(), 1, [&](int64_t first, int64_t last) {
    for (int64_t plane = first; plane < last; ++plane) HWY_DYNAMIC_DISPATCH(pool_plane)
    (g, order.block(), x + plane * in, y + plane * out, indices == nullptr ? nullptr : indices + plane * out);
  });
}

void max_pool_blocks_grad(const PoolGeometry& g, const ImageOrder& order, const float* dy, const uint8_t* indices,
                          float* dx) noexcept {
  const int64_t in = pixels(g.image) * order.block();
  const int64_t out = pixels(g.result) * order.block();
  parallel_for(order.planes(), 1, [&](int64_t first, int64_t last) {
    for (int64_t plane = first; plane < last; ++plane)
      HWY_DYNAMIC_DISPATCH(spread_plane)(g, order.block(), dy + plane * out, indices + plane * out, dx + plane * in);
  });
}

}  // namespace plimsoll::kernels

#endif  // HWY_ONCE
