#include "kernels/half_product.h"

#include <algorithm>
#include <cstring>

#include <oneapi/dnnl/dnnl.hpp>

#include "base/half.h"
#include "kernels/parallel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // gcc 12 warns of its own intrinsics
#endif
#define PLIMSOLL_MULTIPLIES_BF16 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))
#endif

//  The instruction multiplies pairs: c[j] += a[2k] b[2k][j] + a[2k+1] b[2k+1][j] for 16 columns j. Operands lie in
//  pairs:
//
//    b, packed: strips of 64 columns; pair after pair of rows, 64 pairs side by side
//    a, by rows: read where it is if it is bf16 and its rows are consecutive, else rounded into rows of workspace
//    a, if its columns are consecutive: packed as b is
//
//  A thread takes a chunk of c and makes it over kHalfDepth of the inner dimension at a time.
namespace plimsoll::kernels {
namespace {

constexpr int64_t kHalfDepth = 256;  // a strip of b of this depth stays in the first cache; even
constexpr int64_t kHalfPanel = 6;    // rows in registers at once: with four vectors they fill 24 of 32
constexpr int64_t kHalfLanes = 16;
constexpr int64_t kHalfStrip = 4 * kHalfLanes;
constexpr int64_t kHalfUnit = 48;     // rows of a that stay in the second-level cache
constexpr int64_t kHalfWidest = 192;  // columns of a chunk
constexpr Bytes kPairBytes = 4;

// Where a is, as pairs.
struct PairRows {
  const std::byte* at;
  int64_t row_bytes, pair_bytes, panel_bytes;
};

struct HalfPiece {
  int64_t rows, columns, pairs;
  PairRows a;
  const std::byte* b;
  const float* bias;
  float* c;
  int64_t c_stride;
  bool adds;
};

// Lines of numbers beside each other, over a depth: number (line, k) is at line * line_stride + k * depth_stride.
struct HalfLines {
  const void* from;
  DType dtype;
  int64_t line_stride, depth_stride, lines, depth;

  const void* at(int64_t line, int64_t k) const {
    return static_cast<const std::byte*>(from) + (line * line_stride + k * depth_stride) * size_of(dtype);
  }
};

#if defined(__x86_64__)

PLIMSOLL_MULTIPLIES_BF16 inline __mmask16 first_lanes(int64_t count) {
  return count >= kHalfLanes ? static_cast<__mmask16>(0xffff) : static_cast<__mmask16>((1U << count) - 1);
}

// Up to 16 consecutive numbers as bf16, each in the low half of a lane.
PLIMSOLL_MULTIPLIES_BF16 inline __m512i load_low(const void* from, DType dtype, __mmask16 lanes) {
  if (dtype == DType::BF16) return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, from));
  const __m256bh half = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lanes, from));
  return _mm512_cvtepu16_epi32(reinterpret_cast<const __m256i&>(half));
}

// Up to 32 consecutive numbers as 16 pairs.
PLIMSOLL_MULTIPLIES_BF16 inline __m512i load_pairs(const void* from, DType dtype, int64_t count) {
  if (dtype == DType::BF16) {
    const auto lanes = count >= 2 * kHalfLanes ? ~__mmask32{0} : static_cast<__mmask32>((1U << count) - 1);
    return _mm512_maskz_loadu_epi16(lanes, from);
  }
  const auto* numbers = static_cast<const float*>(from);
  const __m512 low = _mm512_maskz_loadu_ps(first_lanes(count), numbers);
  const __m512 high =
      _mm512_maskz_loadu_ps(first_lanes(std::max<int64_t>(0, count - kHalfLanes)), numbers + kHalfLanes);
  const __m512bh both = _mm512_cvtne2ps_pbh(high, low);
  return reinterpret_cast<const __m512i&>(both);
}

// For lines that are neighbours in memory. Writes `width` pairs side by side; those beyond the last line are 0.
PLIMSOLL_MULTIPLIES_BF16 void pack_side_by_side(const HalfLines& lines, std::byte* to, int64_t width) {
  for (int64_t k = 0; k < lines.depth; k += 2, to += width * kPairBytes)
    for (int64_t i = 0; i < width; i += kHalfLanes) {
      const __mmask16 lanes = first_lanes(std::clamp<int64_t>(lines.lines - i, 0, kHalfLanes));
      const __m512i first = load_low(lines.at(i, k), lines.dtype, lanes);
      const __m512i second = load_low(lines.at(i, k + 1), lines.dtype, k + 1 < lines.depth ? lanes : __mmask16{0});
      _mm512_mask_storeu_epi32(to + i * kPairBytes, first_lanes(width - i),
                               _mm512_or_si512(first, _mm512_slli_epi32(second, 16)));
    }
}

// The same for lines that are contiguous: blocks of 16 lines by 16 pairs are transposed.
PLIMSOLL_MULTIPLIES_BF16 void pack_transposed(const HalfLines& lines, std::byte* to, int64_t width) {
  for (int64_t k = 0; k < lines.depth; k += 2 * kHalfLanes) {
    const int64_t pairs = std::min(kHalfLanes, (lines.depth - k + 1) / 2);
    for (int64_t i = 0; i < width; i += kHalfLanes) {
      __m512i r[kHalfLanes], t[kHalfLanes];
      for (int64_t n = 0; n < kHalfLanes; ++n)
        r[n] =
            i + n < lines.lines ? load_pairs(lines.at(i + n, k), lines.dtype, lines.depth - k) : _mm512_setzero_si512();
      for (int n = 0; n < kHalfLanes; n += 2) {
        t[n] = _mm512_unpacklo_epi32(r[n], r[n + 1]);
        t[n + 1] = _mm512_unpackhi_epi32(r[n], r[n + 1]);
      }
      for (int n = 0; n < kHalfLanes; n += 4)
        for (int half = 0; half < 2; ++half) {
          r[n + 2 * half] = _mm512_unpacklo_epi64(t[n + half], t[n + half + 2]);
          r[n + 2 * half + 1] = _mm512_unpackhi_epi64(t[n + half], t[n + half + 2]);
        }
      for (int n = 0; n < 4; ++n)
        for (int high = 0; high < 16; high += 8) {
          t[high + n] = _mm512_shuffle_i32x4(r[high + n], r[high + n + 4], 0x88);
          t[high + n + 4] = _mm512_shuffle_i32x4(r[high + n], r[high + n + 4], 0xdd);
        }
      for (int n = 0; n < 8; ++n) {
        r[n] = _mm512_shuffle_i32x4(t[n], t[n + 8], 0x88);
        r[n + 8] = _mm512_shuffle_i32x4(t[n], t[n + 8], 0xdd);
      }
      const __mmask16 lanes = first_lanes(width - i);
      for (int64_t n = 0; n < pairs; ++n)
        _mm512_mask_storeu_epi32(to + ((k / 2 + n) * width + i) * kPairBytes, lanes, r[n]);
    }
  }
}

// Each line as consecutive pairs.
PLIMSOLL_MULTIPLIES_BF16 void pack_rows(const HalfLines& lines, std::byte* to, int64_t row_bytes) {
  for (int64_t i = 0; i < lines.lines; ++i, to += row_bytes)
    for (int64_t k = 0; k < lines.depth; k += 2 * kHalfLanes)
      _mm512_mask_storeu_epi32(to + k / 2 * kPairBytes, first_lanes((lines.depth - k + 1) / 2),
                               load_pairs(lines.at(i, k), lines.dtype, lines.depth - k));
}

template <int kRows, int kVectors>
PLIMSOLL_MULTIPLIES_BF16 inline void multiply_block(const HalfPiece& p, const std::byte* a, const std::byte* b,
                                                    const float* bias, float* c, __mmask16 last) {
  __m512 sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) {
      const __mmask16 lanes = v + 1 < kVectors ? static_cast<__mmask16>(0xffff) : last;
      sum[r][v] = p.adds ? _mm512_maskz_loadu_ps(lanes, c + r * p.c_stride + v * kHalfLanes) : _mm512_setzero_ps();
      if (bias != nullptr) sum[r][v] = _mm512_add_ps(sum[r][v], _mm512_maskz_loadu_ps(lanes, bias + v * kHalfLanes));
    }
  for (int64_t k = 0; k < p.pairs; ++k, a += p.a.pair_bytes, b += kVectors * kHalfLanes * kPairBytes) {
    __m512i right[kVectors];
    for (int v = 0; v < kVectors; ++v) right[v] = _mm512_loadu_si512(b + v * kHalfLanes * kPairBytes);
    for (int r = 0; r < kRows; ++r) {
      int32_t pair;
      std::memcpy(&pair, a + r * p.a.row_bytes, sizeof pair);
      const __m512i left = _mm512_set1_epi32(pair);
      for (int v = 0; v < kVectors; ++v)
        sum[r][v] = _mm512_dpbf16_ps(sum[r][v], reinterpret_cast<const __m512bh&>(left),
                                     reinterpret_cast<const __m512bh&>(right[v]));
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v)
      _mm512_mask_storeu_ps(c + r * p.c_stride + v * kHalfLanes,
                            v + 1 < kVectors ? static_cast<__mmask16>(0xffff) : last, sum[r][v]);
}

// One strip of b, all rows of the piece.
template <int kVectors>
PLIMSOLL_MULTIPLIES_BF16 void multiply_strip(const HalfPiece& p, const std::byte* b, const float* bias, float* c,
                                             __mmask16 last) {
  const std::byte* a = p.a.at;
  int64_t row = 0;
  for (; row + kHalfPanel <= p.rows; row += kHalfPanel, a += p.a.panel_bytes, c += kHalfPanel * p.c_stride)
    multiply_block<kHalfPanel, kVectors>(p, a, b, bias, c, last);
  switch (p.rows - row) {
    case 5:
      return multiply_block<5, kVectors>(p, a, b, bias, c, last);
    case 4:
      return multiply_block<4, kVectors>(p, a, b, bias, c, last);
    case 3:
      return multiply_block<3, kVectors>(p, a, b, bias, c, last);
    case 2:
      return multiply_block<2, kVectors>(p, a, b, bias, c, last);
    case 1:
      return multiply_block<1, kVectors>(p, a, b, bias, c, last);
    default:
      return;
  }
}

PLIMSOLL_MULTIPLIES_BF16 void multiply_half(const HalfPiece& p) {
  for (int64_t j = 0; j < p.columns; j += kHalfStrip) {
    const int64_t left = std::min(kHalfStrip, p.columns - j), vectors = (left + kHalfLanes - 1) / kHalfLanes;
    const std::byte* b = p.b + j * p.pairs * kPairBytes;
    const float* bias = p.bias != nullptr ? p.bias + j : nullptr;
    const __mmask16 last = first_lanes(left - (vectors - 1) * kHalfLanes);
    if (vectors == 4)
      multiply_strip<4>(p, b, bias, p.c + j, last);
    else if (vectors == 3)
      multiply_strip<3>(p, b, bias, p.c + j, last);
    else if (vectors == 2)
      multiply_strip<2>(p, b, bias, p.c + j, last);
    else
      multiply_strip<1>(p, b, bias, p.c + j, last);
  }
}

#else

// Nobody calls these: multiplies_bf16() is false.
void pack_side_by_side(const HalfLines&, std::byte*, int64_t) {}
void pack_transposed(const HalfLines&, std::byte*, int64_t) {}
void pack_rows(const HalfLines&, std::byte*, int64_t) {}
void multiply_half(const HalfPiece&) {}

#endif

uint16_t to_half(const HalfLines& lines, int64_t line, int64_t k) {
  uint16_t half;
  if (lines.dtype == DType::BF16) {
    std::memcpy(&half, lines.at(line, k), sizeof half);
    return half;
  }
  float number;
  std::memcpy(&number, lines.at(line, k), sizeof number);
  return to_bf16(number);
}

// Any strides, one number at a time.
void pack_slowly(const HalfLines& lines, std::byte* to, int64_t width) {
  for (int64_t k = 0; k < lines.depth; k += 2)
    for (int64_t i = 0; i < width; ++i) {
      const bool is_there = i < lines.lines;
      const uint16_t pair[] = {is_there ? to_half(lines, i, k) : uint16_t{0},
                               is_there && k + 1 < lines.depth ? to_half(lines, i, k + 1) : uint16_t{0}};
      std::memcpy(to + (k / 2 * width + i) * kPairBytes, pair, sizeof pair);
    }
}

// Strips of `width` lines, one behind the other; the last is filled up to a multiple of `least`.
void pack_strips(const HalfLines& lines, std::byte* to, int64_t width, int64_t least) {
  const int64_t pairs = (lines.depth + 1) / 2;
  for (int64_t first = 0; first < lines.lines; first += width) {
    HalfLines strip = lines;
    strip.from = lines.at(first, 0);
    strip.lines = std::min(width, lines.lines - first);
    const int64_t filled = round_up(strip.lines, least);
    std::byte* const at = to + first * pairs * kPairBytes;
    if (lines.line_stride == 1)
      pack_side_by_side(strip, at, filled);
    else if (lines.depth_stride == 1)
      pack_transposed(strip, at, filled);
    else
      pack_slowly(strip, at, filled);
  }
}

// a as pairs, in `packed` unless it lies in memory as pairs already.
PairRows pair_rows(const HalfLines& a, std::byte* packed) {
  const int64_t pairs = (a.depth + 1) / 2;
  const bool is_by_rows = a.depth_stride == 1;
  if (is_by_rows && a.dtype == DType::BF16 && a.depth % 2 == 0) {
    const int64_t row_bytes = a.line_stride * size_of(DType::BF16);
    return {static_cast<const std::byte*>(a.from), row_bytes, kPairBytes, kHalfPanel * row_bytes};
  }
  if (is_by_rows) {
    pack_rows(a, packed, pairs * kPairBytes);
    return {packed, pairs * kPairBytes, kPairBytes, kHalfPanel * pairs * kPairBytes};
  }
  const int64_t width = round_up(a.lines, kHalfLanes);
  pack_strips(a, packed, width, kHalfLanes);
  return {packed, kPairBytes, width * kPairBytes, kHalfPanel * kPairBytes};
}

}  // namespace

bool multiplies_bf16() {
#if defined(__x86_64__)
  // The number of an instruction set in oneDNN has the bits of all sets below it.
  constexpr auto kLevel = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  const auto here = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (here & kLevel) == kLevel && __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

HalfProduct::HalfProduct(const HalfOperand& a, const HalfOperand& b, int64_t c_stride, bool accumulate,
                         Activation activation)
    : a_(a), b_(b), c_stride_(c_stride), accumulate_(accumulate), activation_(activation), slots_(thread_slots()) {
  // As in Product: several chunks a thread, first side by side.
  constexpr int64_t kFewestRows = 192;
  const int64_t rows = a.order.rows, columns = b.order.columns;
  chunk_columns_ = std::min(round_up((columns + 2 * slots_ - 1) / (2 * slots_), kHalfStrip), kHalfWidest);
  const int64_t across = std::max<int64_t>(1, (columns + chunk_columns_ - 1) / std::max<int64_t>(1, chunk_columns_));
  const int64_t down =
      std::clamp<int64_t>((4 * slots_ + across - 1) / across, 1, std::max<int64_t>(1, rows / kFewestRows));
  chunk_rows_ = round_up((rows + down - 1) / down, kHalfPanel);
}

Bytes HalfProduct::packed_b_bytes() const {
  const int64_t pairs = (std::min(a_.order.columns, kHalfDepth) + 1) / 2;
  return round_up(pairs * chunk_columns_ * kPairBytes, kAlignment);
}

Bytes HalfProduct::slot_bytes() const {
  const int64_t pairs = (std::min(a_.order.columns, kHalfDepth) + 1) / 2;
  return packed_b_bytes() + round_up(kHalfUnit * pairs * kPairBytes, kAlignment);
}

Bytes HalfProduct::workspace_bytes() const { return slots_ * slot_bytes(); }

void HalfProduct::run_chunk(const Operands& in, int64_t row, int64_t column, std::byte* packed) const noexcept {
  const MatrixOrder &a = a_.order, &b = b_.order;
  const int64_t rows = std::min(chunk_rows_, a.rows - row);
  const int64_t columns = std::min(chunk_columns_, b.columns - column);
  for (int64_t k = 0; k < a.columns; k += kHalfDepth) {
    const int64_t depth = std::min(kHalfDepth, a.columns - k);
    const HalfLines whole_b{in.b, b_.dtype, b.column_stride, b.row_stride, columns, depth};
    HalfLines right = whole_b;
    right.from = whole_b.at(column, k);
    pack_strips(right, packed, kHalfStrip, kHalfLanes);
    for (int64_t first = 0; first < rows; first += kHalfUnit) {
      HalfLines left{in.a, a_.dtype, a.row_stride, a.column_stride, std::min(kHalfUnit, rows - first), depth};
      left.from = left.at(row + first, k);
      float* const c = in.c + (row + first) * c_stride_ + column;
      multiply_half({left.lines, columns, (depth + 1) / 2, pair_rows(left, packed + packed_b_bytes()), packed,
                     k == 0 && in.bias != nullptr ? in.bias + column : nullptr, c, c_stride_, accumulate_ || k > 0});
      if (activation_ == Activation::None || k + depth < a.columns) continue;
      for (int64_t i = 0; i < left.lines; ++i) activate(c + i * c_stride_, columns, activation_);
    }
  }
}

void HalfProduct::run(const void* a, const void* b, const float* bias, float* c, void* workspace) const noexcept {
  float* const to = c;  // where clang-tidy sees that it is written through
  const Operands in{a, b, bias, to};
  const int64_t rows = a_.order.rows, columns = b_.order.columns;
  const int64_t across = (columns + chunk_columns_ - 1) / chunk_columns_;
  const int64_t chunks = across * ((rows + chunk_rows_ - 1) / chunk_rows_);
  auto* packed = static_cast<std::byte*>(workspace);
  constexpr double kAloneFlops = 2e6;  // less is not worth waking threads
  const bool is_small = 2.0 * static_cast<double>(rows * columns) * static_cast<double>(a_.order.columns) < kAloneFlops;
#pragma omp parallel for schedule(dynamic) num_threads(slots_) if (!is_small)
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    run_chunk(in, chunk / across * chunk_rows_, chunk % across * chunk_columns_,
              packed + omp_get_thread_num() * slot_bytes());
}

}  // namespace plimsoll::kernels
