// What calibration gathers of a value, in a variable: observe_range the least and greatest number (0 always counts),
// count_bins how many numbers lie in each of equal bins.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "kernels/kernel.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

constexpr int64_t kGrain = 16384;    // numbers that a thread takes at once
constexpr int64_t kMostPieces = 64;  // of parallel_for
constexpr int64_t kMostBins = 8192;

// least, greatest, and how many numbers are not finite.
constexpr int64_t kRangeNumbers = 3;

void expect_range(const Infer& n, size_t input) {
  if (!(n.in[input] == TensorType{DType::F32, {kRangeNumbers}}))
    n.fail(fmt::format("the range must be f32[{}] but is {}", kRangeNumbers, to_string(n.in[input])));
}

void infer_range(Infer& n) {
  n.expect_inputs(2, 2);
  expect_range(n, 0);
  n.out = {};
}

void infer_bins(Infer& n) {
  n.expect_inputs(3, 3);
  if (n.in[0].shape.rank() != 1 || n.in[0].shape[0].fixed() < 2 || n.in[0].shape[0].fixed() > kMostBins)
    n.fail(fmt::format("there must be 2 to {} bins in one dimension but the counts are {}", kMostBins,
                       to_string(n.in[0])));
  expect_range(n, 1);
  n.out = {};
}

// The numbers are read as they lie; padding would be counted too.
Layout layout_to_read(const ConcreteType& x) { return x.layout.is_padded(x.dtype, x.dims) ? Layout() : x.layout; }

struct SeenRange {
  float low = 0, high = 0;
  int64_t not_finite = 0;

  void add(const float* x, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const bool is_finite = std::abs(x[i]) <= std::numeric_limits<float>::max();
      not_finite += is_finite ? 0 : 1;
      low = is_finite && x[i] < low ? x[i] : low;
      high = is_finite && x[i] > high ? x[i] : high;
    }
  }
};

Prepared prepare_range(const Facts& facts) {
  const int64_t count = facts.in[1].count();
  const Bytes bytes = kMostPieces * Bytes{sizeof(SeenRange)};
  return {.kernel = make_kernel([=](const Args& args) {
            auto* pieces = static_cast<SeenRange*>(args.workspace);
            std::fill(pieces, pieces + kMostPieces, SeenRange{});
            const auto* x = args.input<float>(1);
            const int64_t items = std::clamp<int64_t>(count / kGrain, 1, kMostPieces);
            parallel_for(items, 1, [&](int64_t first, int64_t last) {
              for (int64_t i = first; i < last; ++i) {
                const int64_t begin = count * i / items;
                pieces[i].add(x + begin, count * (i + 1) / items - begin);
              }
            });
            auto* range = args.updated<float>(0);
            for (int64_t i = 0; i < items; ++i) {
              range[0] = std::min(range[0], pieces[i].low);
              range[1] = std::max(range[1], pieces[i].high);
              range[2] += static_cast<float>(pieces[i].not_finite);
            }
          }),
          .in = {Layout(), layout_to_read(facts.in[1])},
          .workspace_bytes = bytes};
}

// Bins of equal width from -most to most, where most is the greatest magnitude in the range.
Prepared prepare_bins(const Facts& facts) {
  const int64_t bins = facts.in[0].count(), count = facts.in[2].count();
  const int slots = thread_slots();
  const Bytes slot_bytes = round_up(bins * Bytes{sizeof(int64_t)}, kAlignment);
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* range = args.input<float>(1);
            const auto* x = args.input<float>(2);
            const float most = std::max(-range[0], range[1]);
            const float factor = most > 0 ? static_cast<float>(bins) / (2 * most) : 0.0F;
            const auto counts_of = [&](int slot) {
              return reinterpret_cast<int64_t*>(static_cast<std::byte*>(args.workspace) + slot * slot_bytes);
            };
            for (int slot = 0; slot < slots; ++slot) std::fill(counts_of(slot), counts_of(slot) + bins, int64_t{0});
            const int64_t items = std::max<int64_t>(1, count / kGrain);
            parallel_items(items, slots, [&](int64_t item, int slot) {
              int64_t* counts = counts_of(slot);
              for (int64_t i = count * item / items; i < count * (item + 1) / items; ++i) {
                const float place = (x[i] + most) * factor;
                if (!(place >= 0)) continue;  // not finite
                ++counts[std::min(bins - 1, static_cast<int64_t>(std::min(place, 65536.0F)))];
              }
            });
            auto* total = args.updated<int64_t>(0);
            for (int slot = 0; slot < slots; ++slot)
              for (int64_t i = 0; i < bins; ++i) total[i] += counts_of(slot)[i];
          }),
          .in = {Layout(), Layout(), layout_to_read(facts.in[2])},
          .workspace_bytes = slots * slot_bytes};
}

std::vector<Sample> range_samples() {
  return {{"images",
           [](SampleBuilder& s) {
             const Tensor range = s.variable({kRangeNumbers}, 0, 1);
             observe_range(range, s.input({Dim::batch(), 3, 4, 2}, -3, 5));
             return std::vector{range};
           },
           1e-4, false}};
}

std::vector<Sample> bin_samples() {
  return {{"images",
           [](SampleBuilder& s) {
             const Tensor counts = s.variable({16}, 0, 9, DType::I64);
             count_bins(counts, s.input({kRangeNumbers}, 2, 3), s.input({Dim::batch(), 3, 4, 2}, -4, 4));
             return std::vector{counts};
           },
           1e-4, false}};
}

const Op kObserveRange{.name = "observe_range",
                       .infer = infer_range,
                       .prepare = prepare_range,
                       .samples = range_samples,
                       .traits = {.updates = 0b1, .plain_updates = true}};
const Op kCountBins{.name = "count_bins",
                    .infer = infer_bins,
                    .types = {DType::I64, DType::F32},
                    .prepare = prepare_bins,
                    .samples = bin_samples,
                    .traits = {.updates = 0b1, .plain_updates = true}};

}  // namespace

NodeId observe_range(Tensor range, Tensor x, Name name) { return apply(kObserveRange, {range, x}, {}, name).node(); }

NodeId count_bins(Tensor counts, Tensor range, Tensor x, Name name) {
  return apply(kCountBins, {counts, range, x}, {}, name).node();
}

OpList observe_ops() { return {&kObserveRange, &kCountBins}; }

}  // namespace plimsoll::ops
