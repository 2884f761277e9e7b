#include "kernels/plain_reduction.h"

#include <algorithm>
#include <limits>

#include "kernels/integer_map.h"

namespace plimsoll::kernels {
namespace {

constexpr int64_t kColumns = 1024;   // whose results stay in the first-level cache
constexpr int64_t kGrain = 16384;    // elements that are worth another thread
constexpr int64_t kMostPieces = 64;  // of a reduction with few results

template <class T, PlainReduce how>
constexpr T kNeutral = how == PlainReduce::Max   ? std::numeric_limits<T>::lowest()
                       : how == PlainReduce::Min ? std::numeric_limits<T>::max()
                                                 : static_cast<T>(how == PlainReduce::Product ? 1 : 0);

template <class T, PlainReduce how>
T join(T a, T b) {
  if constexpr (std::is_same_v<T, float>)
    return a * b;
  else if constexpr (how == PlainReduce::Product)
    return wrapped_product(a, b);
  else if constexpr (how == PlainReduce::Sum)
    return wrapped_sum(a, b);
  else
    return how == PlainReduce::Max ? std::max(a, b) : std::min(a, b);
}

// Reduced elements are counted as items: single elements where the innermost run is reduced, else whole runs.
template <class T, PlainReduce how>
class PlainReduction {
 public:
  PlainReduction(const Geometry& g, bool accumulate) : g_(g), accumulate_(accumulate) {
    items_ = g.reduced.count * (g.run_is_kept ? 1 : g.run);
    const int64_t elements = g.kept.count * g.reduced.count * g.run;
    if (g.outputs() < kMostPieces) pieces_ = std::clamp<int64_t>(std::min(elements / kGrain, items_), 1, kMostPieces);
  }
  Bytes workspace_bytes() const { return pieces_ == 1 ? 0 : pieces_ * g_.outputs() * static_cast<Bytes>(sizeof(T)); }

  void run(const T* x, T* y, void* workspace) const {
    const int64_t outputs = g_.outputs();
    if (pieces_ == 1) {
      if (!accumulate_) std::fill_n(y, outputs, kNeutral<T, how>);
      const int64_t columns = g_.run_is_kept ? (g_.run + kColumns - 1) / kColumns : 1;
      const int64_t work = std::max<int64_t>(1, g_.reduced.count * g_.run / columns);
      parallel_for(g_.kept.count * columns, std::max<int64_t>(1, kGrain / work), [&](int64_t first, int64_t last) {
        for (int64_t t = first; t < last; ++t) reduce(x, y, t / columns, t % columns * kColumns, 0, items_);
      });
      return;
    }
    auto* partial = static_cast<T*>(workspace);
    parallel_for(pieces_, 1, [&](int64_t first, int64_t last) {
      for (int64_t piece = first; piece < last; ++piece) {
        T* results = partial + piece * outputs;
        std::fill_n(results, outputs, kNeutral<T, how>);
        for (int64_t kept = 0; kept < g_.kept.count; ++kept)
          reduce(x, results, kept, 0, items_ * piece / pieces_, items_ * (piece + 1) / pieces_);
      }
    });
    for (int64_t piece = 0; piece < pieces_; ++piece)
      for (int64_t i = 0; i < outputs; ++i) {
        const T more = partial[piece * outputs + i];
        y[i] = piece == 0 && !accumulate_ ? more : join<T, how>(y[i], more);
      }
  }

 private:
  // Items [first, last) of one kept index into its results, from `column` on.
  void reduce(const T* x, T* y, int64_t kept, int64_t column, int64_t first, int64_t last) const {
    const int64_t base = g_.kept.offset(kept);
    if (!g_.run_is_kept) {
      T result = y[kept];
      for (int64_t i = first; i < last;) {
        const int64_t length = std::min(last - i, g_.run - i % g_.run);
        const T* row = x + base + g_.reduced.offset(i / g_.run) + i % g_.run;
        for (int64_t j = 0; j < length; ++j) result = join<T, how>(result, row[j]);
        i += length;
      }
      y[kept] = result;
      return;
    }
    // In pieces there are few columns, and `column` is 0.
    const int64_t width = pieces_ == 1 ? std::min(kColumns, g_.run - column) : g_.run;
    T* results = y + kept * g_.run + column;
    for (int64_t i = first; i < last; ++i) {
      const T* row = x + base + g_.reduced.offset(i) + column;
      for (int64_t j = 0; j < width; ++j) results[j] = join<T, how>(results[j], row[j]);
    }
  }

  Geometry g_;
  bool accumulate_;
  int64_t items_ = 1;
  int64_t pieces_ = 1;
};

template <class T, PlainReduce how>
Prepared prepare(const Facts& facts, const Dims& axes) {
  const PlainReduction<T, how> reduction(geometry_of(facts.in[0].dims, axes), facts.accumulate);
  return {.kernel = make_kernel(
              [=](const Args& args) { reduction.run(args.input<T>(0), args.output<T>(0), args.workspace); }),
          .workspace_bytes = reduction.workspace_bytes()};
}

}  // namespace

Prepared prepare_plain_reduction(const Facts& facts, PlainReduce how, const Dims& axes) {
  if (facts.in[0].dtype == DType::F32) return prepare<float, PlainReduce::Product>(facts, axes);
  return with_integer(facts.in[0].dtype, [&](auto number) {
    using T = decltype(number);
    if (how == PlainReduce::Product) return prepare<T, PlainReduce::Product>(facts, axes);
    if (how == PlainReduce::Max) return prepare<T, PlainReduce::Max>(facts, axes);
    if (how == PlainReduce::Min) return prepare<T, PlainReduce::Min>(facts, axes);
    return prepare<T, PlainReduce::Sum>(facts, axes);
  });
}

}  // namespace plimsoll::kernels
