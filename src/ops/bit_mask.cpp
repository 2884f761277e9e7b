// bit_mask and masked: where a gradient passes, one bit an element, and the gradient that passes there. Lowering uses
// them where an activation's output would be kept for its signs alone.
//
// Eight neighbours along one axis share a byte: y [N,C,H,W] has a mask [N,C/8,H,W] along the channels, whichever way y
// lies in memory. The mask itself is always row-major.
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "kernels/image_order.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/bit_mask.cpp"
#include "hwy/foreach_target.h"
#include "kernels/tile_map-inl.h"

#ifndef PLIMSOLL_BIT_MASK_ONCE
#define PLIMSOLL_BIT_MASK_ONCE
namespace plimsoll::ops {

// One plane of a mask: `pixels` bytes, each for `channels` (at most 8) elements of the values.
struct MaskPlane {
  int64_t pixels;
  int64_t channels;
  int64_t pixel_stride, channel_stride;  // of the values; one of them is 1
};

}  // namespace plimsoll::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::ops::HWY_NAMESPACE {
using namespace kernels::HWY_NAMESPACE;

// Eight elements, in one vector or two.
using Eight = hn::CappedTag<float, 8>;
using EightInts = hn::RebindToSigned<Eight>;

template <class D>
HWY_INLINE hn::Mask<D> passes(D d, hn::Vec<D> y, float low, float high) {
  const auto above = hn::Gt(y, hn::Set(d, low));
  return high < std::numeric_limits<float>::infinity() ? hn::And(above, hn::Lt(y, hn::Set(d, high))) : above;
}

HWY_INLINE uint8_t byte_of(const float* y, float low, float high) {
  const Eight d;
  unsigned byte = 0;
  for (size_t c = 0; c < 8; c += hn::Lanes(d)) {
    uint8_t bits[8] = {};
    hn::StoreMaskBits(d, passes(d, hn::LoadU(d, y + c), low, high), bits);
    byte |= static_cast<unsigned>(bits[0]) << c;
  }
  return static_cast<uint8_t>(byte);
}

// The elements of a byte are neighbours in memory.
void mask_neighbours(const MaskPlane& plane, const float* y, float low, float high, uint8_t* mask) {
  if (plane.channels == 8) {
    for (int64_t p = 0; p < plane.pixels; ++p) mask[p] = byte_of(y + p * plane.pixel_stride, low, high);
    return;
  }
  // Channels beyond the last must not pass.
  float few[8];
  for (float& value : few) value = -std::numeric_limits<float>::infinity();
  for (int64_t p = 0; p < plane.pixels; ++p) {
    std::memcpy(few, y + p * plane.pixel_stride, static_cast<size_t>(plane.channels) * sizeof(float));
    mask[p] = byte_of(few, low, high);
  }
}

// The elements of a byte lie far apart, each beside those of the next bytes.
void mask_planes(const MaskPlane& plane, const float* y, float low, float high, uint8_t* mask) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const hn::Rebind<uint8_t, FloatTag> db;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t p = 0;
  for (; p + lanes <= plane.pixels; p += lanes) {
    auto bytes = hn::Zero(di);
    for (int64_t c = 0; c < plane.channels; ++c) {
      const auto bit = hn::RebindMask(di, passes(d, hn::LoadU(d, y + c * plane.channel_stride + p), low, high));
      bytes = hn::Or(bytes, hn::IfThenElseZero(bit, hn::Set(di, 1 << c)));
    }
    hn::StoreU(hn::DemoteTo(db, bytes), db, mask + p);
  }
  const bool has_high = high < std::numeric_limits<float>::infinity();
  for (; p < plane.pixels; ++p) {
    unsigned byte = 0;
    for (int64_t c = 0; c < plane.channels; ++c) {
      const float value = y[c * plane.channel_stride + p];
      byte |= static_cast<unsigned>(value > low && (!has_high || value < high)) << c;
    }
    mask[p] = static_cast<uint8_t>(byte);
  }
}

template <bool kSums>
HWY_INLINE void pass_eight(unsigned byte, const float* a, const float* b, float* out) {
  const Eight d;
  const EightInts di;
  const auto bit = hn::Shl(hn::Set(di, 1), hn::Iota(di, 0));
  for (size_t c = 0; c < 8; c += hn::Lanes(d)) {
    const auto there = hn::RebindMask(d, hn::TestBit(hn::Set(di, static_cast<int32_t>(byte >> c)), bit));
    auto value = hn::LoadU(d, a + c);
    if constexpr (kSums) value = hn::Add(value, hn::LoadU(d, b + c));
    hn::StoreU(hn::IfThenElseZero(there, value), d, out + c);
  }
}

template <bool kSums>
HWY_INLINE void pass_neighbours(const MaskPlane& plane, const uint8_t* mask, const float* a, const float* b,
                                float* out) {
  for (int64_t p = 0; p < plane.pixels; ++p) {
    const int64_t at = p * plane.pixel_stride;
    if (plane.channels == 8) {
      pass_eight<kSums>(mask[p], a + at, kSums ? b + at : nullptr, out + at);
      continue;
    }
    const auto bytes = static_cast<size_t>(plane.channels) * sizeof(float);
    float few[3][8] = {};
    std::memcpy(few[0], a + at, bytes);
    if (kSums) std::memcpy(few[1], b + at, bytes);
    pass_eight<kSums>(mask[p], few[0], few[1], few[2]);
    std::memcpy(out + at, few[2], bytes);
  }
}

template <bool kSums>
HWY_INLINE void pass_planes(const MaskPlane& plane, const uint8_t* mask, const float* a, const float* b, float* out) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const hn::Rebind<uint8_t, FloatTag> db;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t p = 0;
  for (; p + lanes <= plane.pixels; p += lanes) {
    const auto bytes = hn::PromoteTo(di, hn::LoadU(db, mask + p));
    for (int64_t c = 0; c < plane.channels; ++c) {
      const int64_t at = c * plane.channel_stride + p;
      auto value = hn::LoadU(d, a + at);
      if constexpr (kSums) value = hn::Add(value, hn::LoadU(d, b + at));
      const auto there = hn::RebindMask(d, hn::TestBit(bytes, hn::Set(di, 1 << c)));
      hn::StoreU(hn::IfThenElseZero(there, value), d, out + at);
    }
  }
  for (; p < plane.pixels; ++p) {
    for (int64_t c = 0; c < plane.channels; ++c) {
      const int64_t at = c * plane.channel_stride + p;
      const float value = kSums ? a[at] + b[at] : a[at];
      out[at] = (mask[p] >> c & 1) != 0 ? value : 0.0F;
    }
  }
}

void mask_plane(const MaskPlane& plane, const float* y, float low, float high, uint8_t* mask) {
  if (plane.channel_stride == 1)
    mask_neighbours(plane, y, low, high, mask);
  else
    mask_planes(plane, y, low, high, mask);
}

// `b` may be null.
void pass_plane(const MaskPlane& plane, const uint8_t* mask, const float* a, const float* b, float* out) {
  if (plane.channel_stride == 1)
    b != nullptr ? pass_neighbours<true>(plane, mask, a, b, out) : pass_neighbours<false>(plane, mask, a, b, out);
  else
    b != nullptr ? pass_planes<true>(plane, mask, a, b, out) : pass_planes<false>(plane, mask, a, b, out);
}

}  // namespace plimsoll::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::ops {
namespace {

HWY_EXPORT(mask_plane);
HWY_EXPORT(pass_plane);

int axis_of(const Infer& n, const Shape& shape) {
  const auto axis = static_cast<int>(n.attrs.i("axis"));
  if (axis < 0 || axis >= shape.rank() || shape[axis].is_batch())
    n.fail(fmt::format("axis {} of {} can't be packed", axis, to_string(shape)));
  return axis;
}

Shape mask_shape(Shape shape, int axis) {
  shape[axis] = (shape[axis].fixed() + 7) / 8;
  return shape;
}

void infer(Infer& n) {
  n.expect_inputs(1, 1);
  n.out = {{DType::U8, mask_shape(n.in[0].shape, axis_of(n, n.in[0].shape))}};
}

// mask, x, and another x to add first
void infer_masked(Infer& n) {
  n.expect_inputs(2, 3);
  for (size_t i = 1; i < n.in.size(); ++i)
    if (!(n.in[i] == n.in[1])) n.fail(fmt::format("takes no {}", to_string(n.in[i])));
  const TensorType expected{DType::U8, mask_shape(n.in[1].shape, axis_of(n, n.in[1].shape))};
  if (!(n.in[0] == expected))
    n.fail(fmt::format("the mask of {} is {} but this one is {}", to_string(n.in[1]), to_string(expected),
                       to_string(n.in[0])));
  n.out = {n.in[1]};
}

// How values [outer, channels, pixels] lie beside their mask [outer, groups, pixels].
struct BitPacking {
  BitPacking(const ConcreteType& values, int axis) : order(Layout(), {1, 1}), channels(values.dims[axis]) {
    for (int i = 0; i < axis; ++i) outer *= values.dims[i];
    for (int i = axis + 1; i < values.dims.rank(); ++i) pixels *= values.dims[i];
    groups = (channels + 7) / 8;
    if (values.dims.rank() == 4 && axis == 1) {
      order = order_or_plain(values);
      block = order.block();
    }
    padded_groups = block > 1 ? order.padded_channels() / 8 : groups;
    // Rows of whole bytes are one long row.
    if (block == 1 && pixels == 1 && channels % 8 == 0) {
      pixels = outer * groups;
      outer = groups = padded_groups = 1;
      block = channels = 8;
    }
  }

  Layout layout(const ConcreteType& values) const {
    return order.block() > 1 ? order.layout(values.dtype, values.dims) : Layout();
  }

  // Calls body(plane, offset of the values, offset of the mask) for pieces of about equal size. Past the last group
  // there is only padding: the offset of the mask is -1 there.
  template <class Body>
  void for_planes(const Body& body) const {
    const int64_t cut = std::max<int64_t>(1, pixels / kPiece);
    const int64_t pieces = outer * padded_groups * cut;
    parallel_for(pieces, std::max<int64_t>(1, kPiece * cut / pixels), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t begin = pixels * (i % cut) / cut;
        const int64_t end = pixels * (i % cut + 1) / cut;
        const int64_t group = i / cut % padded_groups;
        const int64_t row = i / cut / padded_groups;
        const int64_t here = std::clamp<int64_t>(channels - group * 8, 0, 8);
        MaskPlane plane{end - begin, here, block, 1};
        int64_t at = ((row * (padded_groups * 8 / block) + group * 8 / block) * pixels + begin) * block;
        if (block > 1) {
          at += group * 8 % block;
        } else {
          plane = {end - begin, here, 1, pixels};
          at = (row * channels + group * 8) * pixels + begin;
        }
        body(plane, at, group < groups ? (row * groups + group) * pixels + begin : -1);
      }
    });
  }

  static constexpr int64_t kPiece = 4096;  // bytes of a mask that are worth a thread
  ImageOrder order;
  int64_t outer = 1, channels, pixels = 1, groups = 1, padded_groups = 1;
  int64_t block = 1;
};

Prepared prepare(const Facts& facts) {
  const BitPacking packing(facts.in[0], static_cast<int>(facts.attrs.i("axis")));
  const auto low = static_cast<float>(facts.attrs.f("low"));
  const auto high = static_cast<float>(facts.attrs.f("high", std::numeric_limits<double>::infinity()));
  const auto run = PLIMSOLL_BEST(mask_plane);
  return {.kernel = make_kernel([=](const Args& args) {
            packing.for_planes([&](const MaskPlane& plane, int64_t from, int64_t to) {
              if (to >= 0) run(plane, args.input<float>(0) + from, low, high, args.output<uint8_t>(0) + to);
            });
          }),
          .in = {packing.layout(facts.in[0])},
          .out = {Layout()}};
}

Prepared prepare_masked(const Facts& facts) {
  const auto axis = static_cast<int>(facts.attrs.i("axis"));
  BitPacking packing(facts.in[1], axis);
  if (facts.in.size() == 3 && packing.order.block() == 1) packing = BitPacking(facts.in[2], axis);
  const auto run = PLIMSOLL_BEST(pass_plane);
  const bool sums = facts.in.size() == 3;
  const Layout layout = packing.layout(facts.in[1]);
  return {.kernel = make_kernel([=](const Args& args) {
            packing.for_planes([&](MaskPlane plane, int64_t at, int64_t bits) {
              if (packing.block > 1) plane.channels = 8;  // no bit is set in the padding: it becomes zero
              float* out = args.output<float>(0) + at;
              if (bits >= 0) {
                run(plane, args.input<uint8_t>(0) + bits, args.input<float>(1) + at,
                    sums ? args.input<float>(2) + at : nullptr, out);
              } else {
                for (int64_t p = 0; p < plane.pixels; ++p) std::memset(out + p * plane.pixel_stride, 0, 32);
              }
            });
          }),
          .in = sums ? std::vector{Layout(), layout, layout} : std::vector{Layout(), layout},
          .out = {layout}};
}

void grad(Backward& b) {
  for (size_t i = 1; i < b.x.size(); ++i)
    if (b.wanted[i]) b.give(i, masked(b.x[0], b.dy[0], {}, static_cast<int>(b.attrs.i("axis"))));
}

// A convolution hands its result on in a blocked order; of so many channels that a block of 16 is not filled.
Tensor blocked(SampleBuilder& s, int64_t channels) {
  return conv2d(s.input({Dim::batch(), 8, 5, 3}), s.input({channels, 8, 1, 1}));
}

std::vector<Sample> mask_samples() {
  const Dim batch = Dim::batch();
  return {{"rows",
           [=](SampleBuilder& s) {
             return std::vector{bit_mask(s.input({batch, 24}), 1)};
           },
           0, false},
          {"odd rows between two numbers",
           [=](SampleBuilder& s) {
             return std::vector{bit_mask(s.input({batch, 3, 13}), 2, -0.5, 0.25)};
           },
           0, false},
          {"odd channels",
           [=](SampleBuilder& s) {
             return std::vector{bit_mask(s.input({batch, 11, 7, 3}), 1, -0.25, 0.5)};
           },
           0, false},
          {"batch last",
           [=](SampleBuilder& s) {
             return std::vector{bit_mask(s.input({9, batch}), 0)};
           },
           0, false},
          {"blocked", [](SampleBuilder& s) { return std::vector{bit_mask(blocked(s, 24), 1)}; }, 0, false}};
}

std::vector<Sample> masked_samples() {
  const Dim batch = Dim::batch();
  const auto mask = [=](SampleBuilder& s, const Shape& shape) { return s.integers(shape, 0, 256, DType::U8); };
  return {{"rows",
           [=](SampleBuilder& s) {
             return std::vector{masked(mask(s, {batch, 3}), s.input({batch, 24}), {}, 1)};
           }},
          {"odd rows, a sum",
           [=](SampleBuilder& s) {
             return std::vector{masked(mask(s, {batch, 3, 2}), s.input({batch, 3, 13}), s.input({batch, 3, 13}), 2)};
           }},
          {"odd channels, a sum",
           [=](SampleBuilder& s) {
             const Shape shape{batch, 11, 7, 3};
             return std::vector{masked(mask(s, {batch, 2, 7, 3}), s.input(shape), s.input(shape), 1)};
           }},
          {"batch last",
           [=](SampleBuilder& s) {
             return std::vector{masked(mask(s, {2, batch}), s.input({9, batch}), {}, 0)};
           }},
          {"blocked",
           [=](SampleBuilder& s) {
             return std::vector{masked(mask(s, {batch, 3, 5, 3}), blocked(s, 24), {}, 1)};
           }},
          {"blocked, a sum",
           [=](SampleBuilder& s) {
             return std::vector{masked(mask(s, {batch, 3, 5, 3}), s.input({batch, 24, 5, 3}), blocked(s, 24), 1)};
           }},
          {"of itself", [=](SampleBuilder& s) {
             const Tensor x = s.input({batch, 16}, 0.1, 1);
             return std::vector{masked(bit_mask(x, 1), x, {}, 1)};
           }}};
}

const Op kBitMask{.name = "bit_mask",
                  .infer = infer,
                  .prepare = prepare,
                  .samples = mask_samples,
                  .traits = {.batch = BatchRule::Rows, .recomputable = true}};
const Op kMasked{.name = "masked",
                 .infer = infer_masked,
                 .types = {DType::U8, DType::F32},
                 .grad = grad,
                 .prepare = prepare_masked,
                 .samples = masked_samples,
                 .traits = {.batch = BatchRule::Rows, .recomputable = true, .in_place = 0b110}};

}  // namespace

Tensor bit_mask(Tensor y, int axis, double low, double high, Name name) {
  Attrs attrs{{"axis", static_cast<int64_t>(axis)}, {"low", low}};
  if (high < std::numeric_limits<double>::infinity()) attrs.set("high", high);
  return apply(kBitMask, {y}, attrs, name);
}

Tensor masked(Tensor mask, Tensor x, Tensor more, int axis, Name name) {
  const Attrs attrs{{"axis", static_cast<int64_t>(axis)}};
  return more.is_set() ? apply(kMasked, {mask, x, more}, attrs, name) : apply(kMasked, {mask, x}, attrs, name);
}

OpList bit_mask_ops() { return {&kBitMask, &kMasked}; }

}  // namespace plimsoll::ops
#endif
