#include "input/image/pixel_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "input/image/pixel_rows.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace plimsoll::input::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Bytes8 = hn::Rebind<uint8_t, Floats>;
using Pixel = hn::CappedTag<float, 4>;  // three channels and one of the next pixel

HWY_INLINE hn::Vec<Floats> load_bytes(const uint8_t* from) {
  const Floats floats;
  const hn::RebindToSigned<Floats> whole;
  return hn::ConvertTo(floats, hn::PromoteTo(whole, hn::LoadU(Bytes8(), from)));
}

void mix_two(const uint8_t* HWY_RESTRICT a, float a_weight, const uint8_t* HWY_RESTRICT b, float b_weight,
             int64_t bytes, float* HWY_RESTRICT into) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto wa = hn::Set(d, a_weight), wb = hn::Set(d, b_weight);
  int64_t i = 0;
  for (; i + lanes <= bytes; i += lanes)
    hn::StoreU(hn::MulAdd(load_bytes(a + i), wa, hn::Mul(load_bytes(b + i), wb)), d, into + i);
  for (; i < bytes; ++i) into[i] = float(a[i]) * a_weight + float(b[i]) * b_weight;
}

void add_one(const uint8_t* HWY_RESTRICT row, float weight, int64_t bytes, float* HWY_RESTRICT into) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto w = hn::Set(d, weight);
  int64_t i = 0;
  for (; i + lanes <= bytes; i += lanes)
    hn::StoreU(hn::MulAdd(load_bytes(row + i), w, hn::LoadU(d, into + i)), d, into + i);
  for (; i < bytes; ++i) into[i] += float(row[i]) * weight;
}

void mix_colours(const float* HWY_RESTRICT row, const PixelSpan* HWY_RESTRICT columns, int64_t count,
                 const ChannelLine& line, float* HWY_RESTRICT into) {
  const Pixel d;
  const float scales[4] = {line.scale[0], line.scale[1], line.scale[2], 1};
  const float offsets[4] = {line.offset[0], line.offset[1], line.offset[2], 0};
  const auto scale = hn::LoadU(d, scales), offset = hn::LoadU(d, offsets);
  for (int64_t i = 0; i < count; ++i) {
    const PixelSpan& span = columns[i];
    auto sum = hn::Mul(hn::LoadU(d, row + 3 * span.first), hn::Set(d, span.first_weight));
    if (span.last > span.first + 1) {
      auto inner = hn::Zero(d);
      for (int32_t x = span.first + 1; x < span.last; ++x) inner = hn::Add(inner, hn::LoadU(d, row + 3 * x));
      sum = hn::MulAdd(inner, hn::Set(d, span.inner_weight), sum);
    }
    sum = hn::MulAdd(hn::LoadU(d, row + 3 * span.last), hn::Set(d, span.last_weight), sum);
    hn::StoreU(hn::MulAdd(sum, scale, offset), d, into + 3 * i);  // the next pixel overwrites the fourth number
  }
}

// Two pixels at once where vectors are wide enough, with the same operations on each number.
void mix_colour_pairs(const float* HWY_RESTRICT row, const PixelSpan* HWY_RESTRICT columns,
                      [[maybe_unused]] const PixelPair* HWY_RESTRICT pairs, int64_t count, const ChannelLine& line,
                      float* HWY_RESTRICT into) {
  int64_t i = 0;
#if HWY_ARCH_X86 && HWY_MAX_BYTES >= 32
  const hn::CappedTag<float, 8> d;
  const hn::Half<decltype(d)> one;
  const float scales[4] = {line.scale[0], line.scale[1], line.scale[2], 1};
  const float offsets[4] = {line.offset[0], line.offset[1], line.offset[2], 0};
  const auto scale = hn::LoadDup128(d, scales), offset = hn::LoadDup128(d, offsets);
  constexpr int32_t kColours[8] = {0, 1, 2, 4, 5, 6, 3, 7};
  const auto colours = hn::SetTableIndices(d, kColours);
  const auto load = [&](int32_t left, int32_t right)
                        HWY_ATTR { return hn::Combine(d, hn::LoadU(one, row + right), hn::LoadU(one, row + left)); };
  for (; i + 2 <= count; i += 2) {
    const PixelPair& pair = pairs[i / 2];
    auto sum = hn::Mul(load(pair.first[0], pair.first[1]), hn::LoadU(d, pair.first_weights));
    sum = hn::MulAdd(load(pair.last[0], pair.last[1]), hn::LoadU(d, pair.last_weights), sum);
    // The next pair overwrites what is stored behind the six numbers.
    hn::StoreU(hn::TableLookupLanes(hn::MulAdd(sum, scale, offset), colours), d, into + 3 * i);
  }
#endif
  mix_colours(row, columns + i, count - i, line, into + 3 * i);
}

void mix_grays(const float* HWY_RESTRICT row, const PixelSpan* HWY_RESTRICT columns, int64_t count,
               const ChannelLine& line, float* HWY_RESTRICT into) {
  for (int64_t i = 0; i < count; ++i) {
    const PixelSpan& span = columns[i];
    float inner = 0;
    for (int32_t x = span.first + 1; x < span.last; ++x) inner += row[x];
    const float sum =
        row[span.first] * span.first_weight + inner * span.inner_weight + row[span.last] * span.last_weight;
    into[i] = sum * line.scale[0] + line.offset[0];
  }
}

void round_all(const float* HWY_RESTRICT row, int64_t count, uint8_t* HWY_RESTRICT into) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto least = hn::Zero(d), most = hn::Set(d, 255), half = hn::Set(d, 0.5F);
  const hn::RebindToSigned<Floats> whole;
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto inside = hn::Min(hn::Max(hn::LoadU(d, row + i), least), most);
    hn::StoreU(hn::DemoteTo(Bytes8(), hn::ConvertTo(whole, hn::Add(inside, half))), Bytes8(), into + i);
  }
  for (; i < count; ++i) {
    const float inside = row[i] < 0 ? 0 : row[i] > 255 ? 255 : row[i];
    const float up = inside + 0.5F;  // the same bits as the vectors'
    into[i] = static_cast<uint8_t>(up);
  }
}

void stream(const float* HWY_RESTRICT from, int64_t count, float* HWY_RESTRICT to) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr uintptr_t kLine = 64;
  int64_t i = 0;
  for (; i < count && reinterpret_cast<uintptr_t>(to + i) % kLine != 0; ++i) to[i] = from[i];
  for (; i + lanes <= count; i += lanes) hn::Stream(hn::LoadU(d, from + i), d, to + i);
  for (; i < count; ++i) to[i] = from[i];
}

void split(const float* HWY_RESTRICT row, int64_t pixels, float* HWY_RESTRICT first, float* HWY_RESTRICT second,
           float* HWY_RESTRICT third) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= pixels; i += lanes) {
    hn::Vec<Floats> a, b, c;
    hn::LoadInterleaved3(d, row + 3 * i, a, b, c);
    hn::StoreU(a, d, first + i);
    hn::StoreU(b, d, second + i);
    hn::StoreU(c, d, third + i);
  }
  for (; i < pixels; ++i) {
    first[i] = row[3 * i];
    second[i] = row[3 * i + 1];
    third[i] = row[3 * i + 2];
  }
}

}  // namespace plimsoll::input::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::input {

HWY_EXPORT(mix_two);
HWY_EXPORT(add_one);
HWY_EXPORT(mix_colours);
HWY_EXPORT(mix_colour_pairs);
HWY_EXPORT(mix_grays);
HWY_EXPORT(round_all);
HWY_EXPORT(split);
HWY_EXPORT(stream);

void mix_two_rows(const uint8_t* a, float a_weight, const uint8_t* b, float b_weight, int64_t bytes, float* into) {
  HWY_DYNAMIC_DISPATCH(mix_two)(a, a_weight, b, b_weight, bytes, into);
}

void add_row(const uint8_t* row, float weight, int64_t bytes, float* into) {
  HWY_DYNAMIC_DISPATCH(add_one)(row, weight, bytes, into);
}

void mix_columns(const float* row, std::span<const PixelSpan> columns, std::span<const PixelPair> pairs, int channels,
                 const ChannelLine& line, float* into) {
  const auto count = static_cast<int64_t>(columns.size());
  const PixelSpan* const spans = columns.data();
  if (channels != 3) {
    HWY_DYNAMIC_DISPATCH(mix_grays)(row, spans, count, line, into);
  } else if (pairs.empty()) {
    HWY_DYNAMIC_DISPATCH(mix_colours)(row, spans, count, line, into);
  } else {
    HWY_DYNAMIC_DISPATCH(mix_colour_pairs)(row, spans, pairs.data(), count, line, into);
  }
}

void round_to_bytes(const float* row, int64_t count, uint8_t* into) {
  HWY_DYNAMIC_DISPATCH(round_all)(row, count, into);
}

void stream_floats(const float* from, int64_t count, float* to) { HWY_DYNAMIC_DISPATCH(stream)(from, count, to); }

void finish_streaming() { hwy::FlushStream(); }

void split_channels(const float* row, int64_t pixels, float* first, float* second, float* third) {
  HWY_DYNAMIC_DISPATCH(split)(row, pixels, first, second, third);
}

}  // namespace plimsoll::input
#endif
