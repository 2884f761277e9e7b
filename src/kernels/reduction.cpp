#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduction.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/parallel.h"
#include "kernels/reduction.h"
#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

struct Sum {
  static constexpr float kStart = 0;
  template <class V>
  static V join(V a, V b) {
    return hn::Add(a, b);
  }
  static float join(float a, float b) { return a + b; }
  static double join(double a, double b) { return a + b; }
  template <class D, class V>
  static float lanes(D d, V v) {
    return hn::GetLane(hn::SumOfLanes(d, v));
  }
};

struct Max {
  static constexpr float kStart = -std::numeric_limits<float>::infinity();
  static Floats join(Floats a, Floats b) { return hn::IfThenElse(hn::IsNaN(a), a, at_least(a, b)); }
  static float join(float a, float b) { return larger(a, b); }
  static double join(double a, double b) { return larger(a, b); }
  static float lanes(FloatTag d, Floats v) {
    if (!hn::AllFalse(d, hn::IsNaN(v))) return std::numeric_limits<float>::quiet_NaN();
    return hn::GetLane(hn::MaxOfLanes(d, v));
  }
};

struct Min {
  static constexpr float kStart = std::numeric_limits<float>::infinity();
  static Floats join(Floats a, Floats b) { return hn::IfThenElse(hn::IsNaN(a), a, at_most(a, b)); }
  static float join(float a, float b) { return smaller(a, b); }
  static double join(double a, double b) { return smaller(a, b); }
  static float lanes(FloatTag d, Floats v) {
    if (!hn::AllFalse(d, hn::IsNaN(v))) return std::numeric_limits<float>::quiet_NaN();
    return hn::GetLane(hn::MinOfLanes(d, v));
  }
};

// All of x[0..count) as one number.
template <class How>
float run_as(const float* x, int64_t count) {
  const hn::ScalableTag<float> d;
  const auto n = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Set(d, How::kStart);
  auto b = a, c = a, e = a;
  int64_t i = 0;
  for (; i + 4 * n <= count; i += 4 * n) {
    a = How::join(a, hn::LoadU(d, x + i));
    b = How::join(b, hn::LoadU(d, x + i + n));
    c = How::join(c, hn::LoadU(d, x + i + 2 * n));
    e = How::join(e, hn::LoadU(d, x + i + 3 * n));
  }
  for (; i + n <= count; i += n) a = How::join(a, hn::LoadU(d, x + i));
  float rest = How::kStart;
  for (; i < count; ++i) rest = How::join(rest, x[i]);
  return How::join(How::lanes(d, How::join(How::join(a, b), How::join(c, e))), rest);
}

// total[j] = total[j] with all of rows[0..count)[j], column by column; count is 1 or 8.
template <class How>
void rows_as(const float* const* rows, int64_t count, int64_t columns, float* HWY_RESTRICT total) {
  const hn::ScalableTag<float> d;
  const auto n = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  if (count == 8) {
    // A copy of the pointers: the compiler would otherwise assume that a store to `total` may change `rows`.
    const float* const row[8] = {rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6], rows[7]};
    const auto at = [&](int r) HWY_ATTR { return hn::LoadU(d, row[r] + j); };
    for (; j + n <= columns; j += n) {
      const auto low = How::join(How::join(at(0), at(1)), How::join(at(2), at(3)));
      const auto high = How::join(How::join(at(4), at(5)), How::join(at(6), at(7)));
      hn::StoreU(How::join(hn::LoadU(d, total + j), How::join(low, high)), d, total + j);
    }
    for (; j < columns; ++j) {
      float sum = rows[0][j];
      for (int r = 1; r < 8; ++r) sum = How::join(sum, rows[r][j]);
      total[j] = How::join(total[j], sum);
    }
    return;
  }
  for (; j + n <= columns; j += n)
    hn::StoreU(How::join(hn::LoadU(d, total + j), hn::LoadU(d, rows[0] + j)), d, total + j);
  for (; j < columns; ++j) total[j] = How::join(total[j], rows[0][j]);
}

// total[j % run] = total[j % run] with block[j], for [0, columns), whole runs.
template <class How>
void fold_as(const float* HWY_RESTRICT block, int64_t columns, int64_t run, double* HWY_RESTRICT total) {
  for (int64_t start = 0; start < columns; start += run)
    for (int64_t j = 0; j < run; ++j) total[j] = How::join(total[j], static_cast<double>(block[start + j]));
}

float run_any(Reduce how, const float* x, int64_t count) {
  switch (how) {
    case Reduce::Sum:
      return run_as<Sum>(x, count);
    case Reduce::Max:
      return run_as<Max>(x, count);
    case Reduce::Min:
      return run_as<Min>(x, count);
  }
  return 0;
}

void rows_any(Reduce how, const float* const* rows, int64_t count, int64_t columns, float* total) {
  switch (how) {
    case Reduce::Sum:
      return rows_as<Sum>(rows, count, columns, total);
    case Reduce::Max:
      return rows_as<Max>(rows, count, columns, total);
    case Reduce::Min:
      return rows_as<Min>(rows, count, columns, total);
  }
}

void fold_any(Reduce how, const float* block, int64_t columns, int64_t run, double* total) {
  switch (how) {
    case Reduce::Sum:
      return fold_as<Sum>(block, columns, run, total);
    case Reduce::Max:
      return fold_as<Max>(block, columns, run, total);
    case Reduce::Min:
      return fold_as<Min>(block, columns, run, total);
  }
}

}  // namespace
}  // namespace plimsoll::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace plimsoll::kernels {
namespace {

HWY_EXPORT(run_any);
HWY_EXPORT(rows_any);
HWY_EXPORT(fold_any);

float reduce_run(Reduce how, const float* x, int64_t count) { return HWY_DYNAMIC_DISPATCH(run_any)(how, x, count); }
void reduce_rows(Reduce how, const float* const* rows, int64_t count, int64_t columns, float* total) {
  HWY_DYNAMIC_DISPATCH(rows_any)(how, rows, count, columns, total);
}
void fold(Reduce how, const float* block, int64_t columns, int64_t run, double* total) {
  HWY_DYNAMIC_DISPATCH(fold_any)(how, block, columns, run, total);
}

constexpr int64_t kChunk = 16384;  // elements in one run: bounds the error of a sum, and the smallest task
constexpr int64_t kTasks = 32;     // at most; does not depend on the number of threads
constexpr int64_t kTile = 1024;    // columns or outputs whose totals stay in the first-level cache

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

double start_of(Reduce how) {
  const double infinity = std::numeric_limits<double>::infinity();
  return how == Reduce::Sum ? 0 : how == Reduce::Max ? -infinity : infinity;
}

double join(Reduce how, double a, double b) {
  return how == Reduce::Sum ? a + b : how == Reduce::Max ? larger(a, b) : smaller(a, b);
}

}  // namespace

Geometry geometry_of(const Dims& dims, const Dims& axes) {
  Dims sizes;
  Dims reduced;  // 1: reduced, 0: kept
  for (int i = 0; i < dims.rank(); ++i) {
    const bool is_reduced = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (dims[i] == 1) continue;
    if (!sizes.empty() && (reduced.back() != 0) == is_reduced) {
      sizes[sizes.rank() - 1] *= dims[i];
    } else {
      sizes.push_back(dims[i]);
      reduced.push_back(is_reduced);
    }
  }
  Geometry g;
  if (sizes.empty()) return g;
  g.run = sizes.back();
  g.run_is_kept = reduced.back() == 0;
  int64_t stride = element_count(sizes);
  for (int i = 0; i + 1 < sizes.rank(); ++i) {
    stride /= sizes[i];
    (reduced[i] != 0 ? g.reduced : g.kept).add(sizes[i], stride);
  }
  return g;
}

Reduction::Reduction(Reduce how, const Geometry& geometry, double factor, bool accumulate)
    : how_(how), g_(geometry), factor_(factor), accumulate_(accumulate) {
  const int64_t work = g_.kept.count * g_.reduced.count * g_.run;
  const int64_t tasks = std::clamp<int64_t>(work / kChunk, 1, kTasks);
  if (g_.run_is_kept) {
    // The rows of the innermost reduced dimension are contiguous: short ones are taken several at once.
    const int last = g_.reduced.sizes.rank() - 1;
    for (int i = 0; i < last; ++i) spans_.add(g_.reduced.sizes[i], g_.reduced.strides[i]);
    const int64_t rows = last >= 0 ? g_.reduced.sizes[last] : 1;
    span_ = rows * g_.run;
    width_ = g_.run * (g_.run < 128 ? std::min(rows, 512 / g_.run) : 1);
    per_span_ = divide_up(span_, width_);
    items_ = per_span_ * spans_.count;
    pieces_ = std::clamp<int64_t>(divide_up(tasks, g_.kept.count * divide_up(g_.run, kTile)), 1,
                                  std::max<int64_t>(1, items_ / 8));
  } else {
    per_span_ = divide_up(g_.run, kChunk);
    items_ = per_span_ * g_.reduced.count;
    pieces_ = std::clamp<int64_t>(divide_up(tasks, g_.kept.count), 1, items_);
  }
}

void Reduction::finish(float* y, double value) const {
  const auto result = static_cast<float>(value * factor_);
  *y = accumulate_ ? *y + result : result;
}

void Reduction::run(const float* x, float* y, void* workspace) const {
  auto* partial = static_cast<double*>(workspace);
  const int64_t columns = g_.run_is_kept ? divide_up(g_.run, kTile) : 1;
  const int64_t work = g_.kept.count * g_.reduced.count * g_.run;
  const int64_t tasks = g_.kept.count * columns * pieces_;
  parallel_for(tasks, std::max<int64_t>(1, kChunk * tasks / std::max<int64_t>(1, work)),
               [&](int64_t first, int64_t last) {
                 if (g_.run_is_kept)
                   for (int64_t t = first; t < last; ++t)
                     reduce_tile(x, y, partial, t / pieces_ / columns, t / pieces_ % columns, t % pieces_);
                 else if (pieces_ == 1)
                   for (int64_t o = first; o < last; o += kTile)
                     reduce_runs(x, y, partial, o, std::min(last, o + kTile), 0);
                 else
                   for (int64_t t = first; t < last; ++t)
                     reduce_runs(x, y, partial, t / pieces_, t / pieces_ + 1, t % pieces_);
               });
  if (pieces_ == 1) return;
  const int64_t outputs = g_.outputs();
  parallel_for(outputs, 4096, [&](int64_t first, int64_t last) {
    for (int64_t o = first; o < last; ++o) {
      double total = partial[o];
      for (int64_t p = 1; p < pieces_; ++p) total = join(how_, total, partial[p * outputs + o]);
      finish(y + o, total);
    }
  });
}

// Outputs [first, last) from one piece of their runs. Runs outside, outputs inside: memory is read in order.
void Reduction::reduce_runs(const float* x, float* y, double* partial, int64_t first, int64_t last,
                            int64_t piece) const {
  const double start = start_of(how_);
  double totals[kTile];
  for (int64_t o = first; o < last; ++o) totals[o - first] = start;
  const int64_t end = items_ * (piece + 1) / pieces_;
  for (int64_t item = items_ * piece / pieces_; item < end; ++item) {
    const int64_t chunk = item % per_span_ * kChunk;
    const int64_t base = g_.reduced.offset(item / per_span_) + chunk;
    const int64_t count = std::min(kChunk, g_.run - chunk);
    for (int64_t o = first; o < last; ++o)
      totals[o - first] = join(how_, totals[o - first], reduce_run(how_, x + base + g_.kept.offset(o), count));
  }
  for (int64_t o = first; o < last; ++o) {
    if (pieces_ == 1)
      finish(y + o, totals[o - first]);
    else
      partial[piece * g_.outputs() + o] = totals[o - first];
  }
}

// One tile of columns of one kept index from one piece of its rows.
void Reduction::reduce_tile(const float* x, float* y, double* partial, int64_t kept, int64_t tile,
                            int64_t piece) const {
  const double identity = start_of(how_);
  const bool is_folded = width_ > g_.run;  // several short rows side by side
  const int64_t column = is_folded ? 0 : tile * kTile;
  const int64_t columns = is_folded ? width_ : std::min(kTile, g_.run - column);
  const int64_t outputs = is_folded ? g_.run : columns;
  float block[kTile];
  double totals[kTile];
  std::fill(block, block + columns, static_cast<float>(identity));
  std::fill(totals, totals + outputs, identity);
  const auto flush = [&] {
    fold(how_, block, columns, outputs, totals);
    std::fill(block, block + columns, static_cast<float>(identity));
  };
  const float* base = x + g_.kept.offset(kept) + column;
  const float* rows[8];
  int64_t held = 0;
  int64_t since_flush = 0;
  const int64_t end = items_ * (piece + 1) / pieces_;
  for (int64_t item = items_ * piece / pieces_; item < end; ++item) {
    const int64_t start = item % per_span_ * width_;
    rows[held] = base + spans_.offset(item / per_span_) + start;
    if (is_folded && span_ - start < width_) {
      reduce_rows(how_, rows + held, 1, span_ - start, block);
      continue;
    }
    if (++held < 8) continue;
    reduce_rows(how_, rows, 8, columns, block);
    held = 0;
    if (++since_flush == 128) {
      flush();
      since_flush = 0;
    }
  }
  for (int64_t i = 0; i < held; ++i) reduce_rows(how_, rows + i, 1, columns, block);
  flush();
  const int64_t out = kept * g_.run + column;
  for (int64_t j = 0; j < outputs; ++j) {
    if (pieces_ == 1)
      finish(y + out + j, totals[j]);
    else
      partial[piece * g_.outputs() + out + j] = totals[j];
  }
}

}  // namespace plimsoll::kernels
#endif
