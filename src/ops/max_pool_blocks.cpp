#include "ops/max_pool_blocks.h"

#include <algorithm>
#include <limits>

#include "ops/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/max_pool_blocks.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace plimsoll::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A block has 8 or 16 channels; on narrow machines it takes several vectors.
using Channels = hn::CappedTag<float, 8>;

// Calls body(place in the window, offset of the pixel in its plane) for the pixels of one window that are not padding.
template <class Body>
HWY_INLINE void for_window(const PoolGeometry& g, int64_t row, int64_t column, int64_t block, const Body& body) {
  const int64_t top = row * g.window.strides[0] - g.window.pads[0];
  const int64_t left = column * g.window.strides[1] - g.window.pads[1];
  const int64_t first_row = std::max<int64_t>(0, -top);
  const int64_t last_row = std::min(g.size[0], g.image[0] - top);
  const int64_t first_column = std::max<int64_t>(0, -left);
  const int64_t last_column = std::min(g.size[1], g.image[1] - left);
  for (int64_t i = first_row; i < last_row; ++i)
    for (int64_t k = first_column; k < last_column; ++k)
      body(static_cast<float>(i * g.size[1] + k), ((top + i) * g.image[1] + left + k) * block);
}

void pool_plane(const PoolGeometry& g, int64_t block, const float* x, float* y, uint8_t* indices) {
  const Channels d;
  const hn::RebindToSigned<Channels> di;
  const hn::Rebind<uint8_t, Channels> db;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t row = 0; row < g.result[0]; ++row) {
    for (int64_t column = 0; column < g.result[1]; ++column) {
      const int64_t to = (row * g.result[1] + column) * block;
      for (int64_t c = 0; c < block; c += lanes) {
        auto best = hn::Set(d, -std::numeric_limits<float>::infinity());
        auto place = hn::Zero(d);
        for_window(g, row, column, block, [&](float k, int64_t at) HWY_ATTR {
          const auto value = hn::LoadU(d, x + at + c);
          // Not "greater": a NaN must win, so that bad numbers are seen.
          const auto wins = hn::Not(hn::Le(value, best));
          best = hn::IfThenElse(wins, value, best);
          place = hn::IfThenElse(wins, hn::Set(d, k), place);
        });
        hn::StoreU(best, d, y + to + c);
        if (indices != nullptr) hn::StoreU(hn::DemoteTo(db, hn::ConvertTo(di, place)), db, indices + to + c);
      }
    }
  }
}

void spread_plane(const PoolGeometry& g, int64_t block, const float* dy, const uint8_t* indices, float* dx) {
  const Channels d;
  const hn::RebindToSigned<Channels> di;
  const hn::Rebind<uint8_t, Channels> db;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  std::fill(dx, dx + g.image[0] * g.image[1] * block, 0.0F);
  for (int64_t row = 0; row < g.result[0]; ++row) {
    for (int64_t column = 0; column < g.result[1]; ++column) {
      const int64_t from = (row * g.result[1] + column) * block;
      for (int64_t c = 0; c < block; c += lanes) {
        const auto gradient = hn::LoadU(d, dy + from + c);
        const auto place = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(db, indices + from + c)));
        for_window(g, row, column, block, [&](float k, int64_t at) HWY_ATTR {
          const auto here = hn::IfThenElseZero(hn::Eq(place, hn::Set(d, k)), gradient);
          hn::StoreU(hn::Add(hn::LoadU(d, dx + at + c), here), d, dx + at + c);
        });
      }
    }
  }
}

}  // namespace plimsoll::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace plimsoll {
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

}  // namespace plimsoll

#endif  // HWY_ONCE
