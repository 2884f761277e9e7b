#include "kernels/channel_norm.h"

#include "kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/channel_norm.cpp"
#include <hwy/foreach_target.h>
// These follow foreach_target.h, which defines the target:
#include <hwy/cache_control.h>
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "kernels/clamp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// A block of channels as vectors: kSubs of them, or for plain order (block 1) one in which all lanes are one channel.
template <int kBlock>
struct Blocked {
  using D = hn::CappedTag<float, kBlock == 1 ? 16 : kBlock>;  // NOLINT(bugprone-branch-clone): so it is for 16 alone
  using V = hn::Vec<D>;
  static constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
  static constexpr int kSubs = kBlock == 1 ? 1 : kBlock / kLanes;
  // So many sums run side by side to hide latency; the k-th belongs to the sub-vector k % kSubs.
  static constexpr int kRun = kSubs < 4 ? 4 : kSubs;

  struct Numbers {
    V sub[kSubs];
    HWY_INLINE V operator[](int k) const { return sub[k % kSubs]; }
  };
  static HWY_INLINE Numbers load(const float* p) {
    Numbers numbers;
    for (int s = 0; s < kSubs; ++s)
      numbers.sub[s] = kBlock == 1 ? hn::Set(D(), *p) : hn::LoadU(D(), p + ptrdiff_t{s} * kLanes);
    return numbers;
  }
};

template <int kBlock>
struct Sums {
  using B = Blocked<kBlock>;
  typename B::V sum[B::kRun];
  HWY_INLINE Sums() {
    for (auto& v : sum) v = hn::Zero(typename B::D());
  }
  HWY_INLINE typename B::Numbers total() const {
    typename B::Numbers numbers;
    for (int s = 0; s < B::kSubs; ++s) {
      numbers.sub[s] = sum[s];
      for (int k = s + B::kSubs; k < B::kRun; k += B::kSubs) numbers.sub[s] = hn::Add(numbers.sub[s], sum[k]);
    }
    if constexpr (kBlock == 1) numbers.sub[0] = hn::SumOfLanes(typename B::D(), numbers.sub[0]);
    return numbers;
  }
};

template <int kBlock>
HWY_INLINE void store(const typename Blocked<kBlock>::Numbers& numbers, float* p) {
  using B = Blocked<kBlock>;
  if constexpr (kBlock == 1)
    *p = hn::GetLane(numbers.sub[0]);
  else
    for (int s = 0; s < B::kSubs; ++s) hn::StoreU(numbers.sub[s], typename B::D(), p + s * B::kLanes);
}

// Calls body(k, i) for whole vectors and tail(k, i, mask) for what is left of a plain row.
template <int kBlock, class Body, class Tail>
HWY_INLINE void for_vectors(int64_t count, const Body& body, const Tail& tail) {
  using B = Blocked<kBlock>;
  constexpr int64_t n = B::kLanes;
  int64_t i = 0;
  for (; i + B::kRun * n <= count; i += B::kRun * n)
    for (int k = 0; k < B::kRun; ++k) body(k, i + k * n);
  int k = 0;
  for (; i + n <= count; i += n) body(k++, i);
  if (kBlock == 1 && i < count) tail(0, i, hn::FirstN(typename B::D(), static_cast<size_t>(count - i)));
}

template <int kBlock>
void moments(const ChannelPieces& pieces, const float* x, float* mean, float* squares) {
  using B = Blocked<kBlock>;
  const typename B::D d;
  parallel_for(pieces.count(), pieces.grain(), [&](int64_t first, int64_t last) HWY_ATTR {
    for (int64_t i = first; i < last; ++i) {
      const ChannelPieces::Piece piece = pieces.piece(i);
      const float* p = x + piece.at;
      Sums<kBlock> sums;
      for_vectors<kBlock>(
          piece.count, [&](int k, int64_t at) HWY_ATTR { sums.sum[k] = hn::Add(sums.sum[k], hn::LoadU(d, p + at)); },
          [&](int k, int64_t at, auto mask)
              HWY_ATTR { sums.sum[k] = hn::Add(sums.sum[k], hn::MaskedLoad(mask, d, p + at)); });
      typename B::Numbers center = sums.total();
      const auto pixels = hn::Set(d, static_cast<float>(kBlock) / static_cast<float>(piece.count));
      for (int s = 0; s < B::kSubs; ++s) center.sub[s] = hn::Mul(center.sub[s], pixels);
      // The piece is still in the cache: a second pass costs little, and distances from the mean lose no digits.
      Sums<kBlock> distances;
      for_vectors<kBlock>(
          piece.count,
          [&](int k, int64_t at) HWY_ATTR {
            const auto distance = hn::Sub(hn::LoadU(d, p + at), center[k]);
            distances.sum[k] = hn::MulAdd(distance, distance, distances.sum[k]);
          },
          [&](int k, int64_t at, auto mask) HWY_ATTR {
            const auto distance = hn::IfThenElseZero(mask, hn::Sub(hn::MaskedLoad(mask, d, p + at), center[k]));
            distances.sum[k] = hn::MulAdd(distance, distance, distances.sum[k]);
          });
      store<kBlock>(center, mean + piece.numbers);
      store<kBlock>(distances.total(), squares + piece.numbers);
    }
  });
}

template <Activation kActivation, class D, class V>
HWY_INLINE V activate(D d, V v) {
  if constexpr (kActivation == Activation::Relu) return relu_of(d, v);
  if constexpr (kActivation == Activation::Relu6) return clip_of(v, hn::Zero(d), hn::Set(d, 6.0F));
  if constexpr (kActivation == Activation::Tanh) return hn::Tanh(d, v);
  if constexpr (kActivation == Activation::Sigmoid) {
    const V half = hn::Set(d, 0.5F);
    return hn::MulAdd(half, hn::Tanh(d, hn::Mul(half, v)), half);
  }
  return v;
}

template <int kBlock>
struct AffineNumbers {
  using B = Blocked<kBlock>;
  typename B::Numbers center, scale, shift;
  HWY_INLINE AffineNumbers(const ChannelAffine& affine, const ChannelPieces::Piece& piece) {
    const int64_t at = piece.sample * affine.sample_stride + piece.channel;
    center = B::load(affine.center + at);
    scale = B::load(affine.scale + at);
    shift = B::load(affine.shift + at);
  }
  // Forward and mask use this same expression: their bits agree.
  HWY_INLINE typename B::V operator()(int k, typename B::V x) const {
    return hn::MulAdd(hn::Sub(x, center[k]), scale[k], shift[k]);
  }
};

// Results larger than any cache are stored past it, so that the memory they overwrite is not read first. Only whole
// aligned vectors can be stored so; plain planes and their pieces may end in part of one.
template <int kBlock>
bool is_streamed(const ChannelPieces& pieces, const float* x, const float* y) {
  constexpr int64_t kCacheFloats = 4 << 20;
  constexpr int64_t kLine = 16;
  const bool is_whole = kBlock > 1 || (pieces.order().pixels() % kLine == 0 && pieces.pixels(0) % kLine == 0);
  return is_whole && x != y && reinterpret_cast<uintptr_t>(y) % 64 == 0 &&
         pieces.order().planes() * pieces.order().pixels() * kBlock > kCacheFloats;
}

template <int kBlock, Activation kActivation>
void affine_pass(const ChannelPieces& pieces, const ChannelAffine& affine, const float* x, float* y) {
  using B = Blocked<kBlock>;
  const typename B::D d;
  const bool streams = is_streamed<kBlock>(pieces, x, y);
  parallel_for(pieces.count(), pieces.grain(), [&](int64_t first, int64_t last) HWY_ATTR {
    for (int64_t i = first; i < last; ++i) {
      const ChannelPieces::Piece piece = pieces.piece(i);
      const AffineNumbers<kBlock> numbers(affine, piece);
      const float* from = x + piece.at;
      float* to = y + piece.at;
      if (streams) {
        for_vectors<kBlock>(
            piece.count,
            [&](int k, int64_t at)
                HWY_ATTR { hn::Stream(activate<kActivation>(d, numbers(k, hn::LoadU(d, from + at))), d, to + at); },
            [](int, int64_t, auto) {});
        continue;
      }
      for_vectors<kBlock>(
          piece.count,
          [&](int k, int64_t at)
              HWY_ATTR { hn::StoreU(activate<kActivation>(d, numbers(k, hn::LoadU(d, from + at))), d, to + at); },
          [&](int k, int64_t at, auto mask) HWY_ATTR {
            const auto v = numbers(k, hn::MaskedLoad(mask, d, from + at));
            hn::BlendedStore(activate<kActivation>(d, v), mask, d, to + at);
          });
    }
    if (streams) hwy::FlushStream();
  });
}

// The gradient of an affine pass behind an activation: zero where the activation is flat.
template <int kBlock, ChannelMask::From kFrom>
struct Masked {
  using B = Blocked<kBlock>;
  using V = typename B::V;
  const float* y;
  AffineNumbers<kBlock> forward;
  V high;
  HWY_INLINE Masked(const ChannelMask& mask, const ChannelPieces::Piece& piece, const ChannelAffine& filler)
      : y(kFrom == ChannelMask::From::Output ? mask.y + piece.at : nullptr),
        forward(kFrom == ChannelMask::From::Input ? mask.forward : filler, piece),
        high(hn::Set(typename B::D(), mask.high)) {}
  template <class Load>
  HWY_INLINE V operator()(int k, int64_t at, V x, V dy, const Load& load) const {
    if constexpr (kFrom == ChannelMask::From::None) return dy;
    V value = x;
    if constexpr (kFrom == ChannelMask::From::Output)
      value = load(y + at);
    else
      value = forward(k, x);
    return hn::IfThenElseZero(hn::And(hn::Gt(value, hn::Zero(typename B::D())), hn::Lt(value, high)), dy);
  }
};

template <int kBlock, ChannelMask::From kFrom>
void products_pass(const ChannelPieces& pieces, const float* center, int64_t sample_stride, const ChannelMask& mask,
                   const float* x, const float* dy, float* sums, float* products) {
  using B = Blocked<kBlock>;
  const typename B::D d;
  parallel_for(pieces.count(), pieces.grain(), [&](int64_t first, int64_t last) HWY_ATTR {
    for (int64_t i = first; i < last; ++i) {
      const ChannelPieces::Piece piece = pieces.piece(i);
      const typename B::Numbers middle = B::load(center + piece.sample * sample_stride + piece.channel);
      const Masked<kBlock, kFrom> masked(mask, piece, {center, center, center, sample_stride});
      const float* px = x + piece.at;
      const float* pdy = dy + piece.at;
      Sums<kBlock> sum;
      Sums<kBlock> product;
      const auto add = [&](int k, int64_t at, const auto& load) HWY_ATTR {
        const auto vx = load(px + at);
        const auto g = masked(k, at, vx, load(pdy + at), load);
        sum.sum[k] = hn::Add(sum.sum[k], g);
        product.sum[k] = hn::MulAdd(g, hn::Sub(vx, middle[k]), product.sum[k]);
      };
      for_vectors<kBlock>(
          piece.count,
          [&](int k, int64_t at) HWY_ATTR { add(k, at, [&](const float* p) HWY_ATTR { return hn::LoadU(d, p); }); },
          [&](int k, int64_t at, auto lanes)
              HWY_ATTR { add(k, at, [&](const float* p) HWY_ATTR { return hn::MaskedLoad(lanes, d, p); }); });
      store<kBlock>(sum.total(), sums + piece.numbers);
      store<kBlock>(product.total(), products + piece.numbers);
    }
  });
}

template <int kBlock, ChannelMask::From kFrom>
void gradient_pass(const ChannelPieces& pieces, const ChannelAffine& affine, const float* slope,
                   const ChannelMask& mask, const float* x, const float* dy, float* dx) {
  using B = Blocked<kBlock>;
  const typename B::D d;
  const bool streams = is_streamed<kBlock>(pieces, x, dx) && dy != dx;
  parallel_for(pieces.count(), pieces.grain(), [&](int64_t first, int64_t last) HWY_ATTR {
    for (int64_t i = first; i < last; ++i) {
      const ChannelPieces::Piece piece = pieces.piece(i);
      const AffineNumbers<kBlock> numbers(affine, piece);
      const typename B::Numbers slopes = B::load(slope + piece.sample * affine.sample_stride + piece.channel);
      const Masked<kBlock, kFrom> masked(mask, piece, affine);
      const float* px = x + piece.at;
      const float* pdy = dy + piece.at;
      float* to = dx + piece.at;
      const auto value = [&](int k, int64_t at, const auto& load) HWY_ATTR {
        const auto vx = load(px + at);
        return hn::MulAdd(masked(k, at, vx, load(pdy + at), load), slopes[k], numbers(k, vx));
      };
      for_vectors<kBlock>(
          piece.count,
          [&](int k, int64_t at) HWY_ATTR {
            const auto v = value(k, at, [&](const float* p) HWY_ATTR { return hn::LoadU(d, p); });
            if (streams)
              hn::Stream(v, d, to + at);
            else
              hn::StoreU(v, d, to + at);
          },
          [&](int k, int64_t at, auto lanes) HWY_ATTR {
            const auto v = value(k, at, [&](const float* p) HWY_ATTR { return hn::MaskedLoad(lanes, d, p); });
            hn::BlendedStore(v, lanes, d, to + at);
          });
    }
    if (streams) hwy::FlushStream();
  });
}

// Calls f with the block of the order as a constant.
template <class F>
void with_block(const ChannelPieces& pieces, const F& f) {
  if (pieces.order().block() == 8) return f(std::integral_constant<int, 8>());
  if (pieces.order().block() == 16) return f(std::integral_constant<int, 16>());
  f(std::integral_constant<int, 1>());
}

template <class F>
void with_mask(ChannelMask::From from, const F& f) {
  using From = ChannelMask::From;
  if (from == From::Output) return f(std::integral_constant<From, From::Output>());
  if (from == From::Input) return f(std::integral_constant<From, From::Input>());
  f(std::integral_constant<From, From::None>());
}

void Moments(const ChannelPieces& pieces, const float* x, float* mean, float* squares) {
  with_block(pieces, [&](auto block) HWY_ATTR { moments<block()>(pieces, x, mean, squares); });
}

void Affine(const ChannelPieces& pieces, const ChannelAffine& affine, Activation activation, const float* x, float* y) {
  with_block(pieces, [&](auto block) HWY_ATTR {
    switch (activation) {
      case Activation::None:
        return affine_pass<block(), Activation::None>(pieces, affine, x, y);
      case Activation::Relu:
        return affine_pass<block(), Activation::Relu>(pieces, affine, x, y);
      case Activation::Relu6:
        return affine_pass<block(), Activation::Relu6>(pieces, affine, x, y);
      case Activation::Sigmoid:
        return affine_pass<block(), Activation::Sigmoid>(pieces, affine, x, y);
      case Activation::Tanh:
        return affine_pass<block(), Activation::Tanh>(pieces, affine, x, y);
    }
  });
}

void Products(const ChannelPieces& pieces, const float* center, int64_t sample_stride, const ChannelMask& mask,
              const float* x, const float* dy, float* sums, float* products) {
  with_block(pieces, [&](auto block) HWY_ATTR {
    with_mask(mask.from, [&](auto from) HWY_ATTR {
      products_pass<block(), from()>(pieces, center, sample_stride, mask, x, dy, sums, products);
    });
  });
}

void GradientPass(const ChannelPieces& pieces, const ChannelAffine& affine, const float* slope, const ChannelMask& mask,
                  const float* x, const float* dy, float* dx) {
  with_block(pieces, [&](auto block) HWY_ATTR {
    with_mask(mask.from,
              [&](auto from) HWY_ATTR { gradient_pass<block(), from()>(pieces, affine, slope, mask, x, dy, dx); });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plimsoll::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::kernels {

namespace {
HWY_EXPORT(Moments);
HWY_EXPORT(Affine);
HWY_EXPORT(Products);
HWY_EXPORT(GradientPass);
}  // namespace

ChannelPieces::ChannelPieces(const ImageOrder& order) : order_(order), blocks_(order.blocks()) {
  const int64_t plane = std::max<int64_t>(1, order.pixels());
  per_plane_ = (plane * order.block() + 8191) / 8192;
  step_ = (plane + per_plane_ - 1) / per_plane_;
  per_plane_ = (plane + step_ - 1) / step_;
}

std::vector<ChannelPieces> ChannelPieces::parts(int tensors) const {
  const int64_t block_bytes =
      order_.samples() * order_.pixels() * order_.block() * tensors * static_cast<Bytes>(sizeof(float));
  const int64_t at_once = std::max<int64_t>(1, 4 * MiB / std::max<int64_t>(1, block_bytes));
  std::vector<ChannelPieces> parts;
  for (int64_t first = 0; first < blocks_; first += at_once) {
    ChannelPieces part = *this;
    part.first_block_ = first_block_ + first;
    part.blocks_ = std::min(at_once, blocks_ - first);
    parts.push_back(part);
  }
  return parts;
}

ChannelPieces::Piece ChannelPieces::piece(int64_t i) const {
  const int64_t plane = i / per_plane_;
  const int64_t part = i % per_plane_;
  const int64_t sample = plane / blocks_;
  const int64_t block = first_block_ + plane % blocks_;
  const int64_t channel = block * order_.block();
  return {((sample * order_.blocks() + block) * order_.pixels() + part * step_) * order_.block(),
          pixels(part) * order_.block(), sample, channel,
          (sample * per_plane_ + part) * order_.padded_channels() + channel};
}

void measure_moments(const ChannelPieces& pieces, const float* x, float* mean, float* squares) {
  HWY_DYNAMIC_DISPATCH(Moments)(pieces, x, mean, squares);
}

void apply_affine(const ChannelPieces& pieces, const ChannelAffine& affine, Activation activation, const float* x,
                  float* y) {
  HWY_DYNAMIC_DISPATCH(Affine)(pieces, affine, activation, x, y);
}

void measure_products(const ChannelPieces& pieces, const float* center, int64_t sample_stride, const ChannelMask& mask,
                      const float* x, const float* dy, float* sums, float* products) {
  HWY_DYNAMIC_DISPATCH(Products)(pieces, center, sample_stride, mask, x, dy, sums, products);
}

void apply_gradient(const ChannelPieces& pieces, const ChannelAffine& affine, const float* slope,
                    const ChannelMask& mask, const float* x, const float* dy, float* dx) {
  HWY_DYNAMIC_DISPATCH(GradientPass)(pieces, affine, slope, mask, x, dy, dx);
}

}  // namespace plimsoll::kernels
#endif  // HWY_ONCE
