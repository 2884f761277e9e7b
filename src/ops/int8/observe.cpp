// What calibration asks of a value: observe_range for its least and greatest number, count_bins for its histogram.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "kernels/element_runs.h"
#include "kernels/parallel.h"
#include "ops/ops.h"
#include "ops/sample.h"

namespace plimsoll::ops {
namespace {

constexpr int64_t kGrain = 16384;    // numbers that a thread takes at once
constexpr int64_t kMostPieces = 64;  // for each of which a range is kept
constexpr int64_t kMostBins = 8192;

void infer_range(Infer& n) {
  n.expect_inputs(1, 1);
  n.out = {{DType::F32, {3}}};
}

void infer_bins(Infer& n) {
  n.expect_inputs(1, 1);
  if (n.attrs.i("bins") < 2 || n.attrs.i("bins") > kMostBins)
    n.fail(fmt::format("there must be 2 to {} bins but are {}", kMostBins, n.attrs.i("bins")));
  n.expect_positive("most", 0);
  n.out = {{DType::I32, {n.attrs.i("bins")}}};
}

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
  const ElementRuns runs(facts.in[0]);
  const int64_t count = runs.places();
  const int64_t items = std::clamp<int64_t>(count / kGrain, 1, kMostPieces);
  return {.kernel = make_kernel([=](const Args& args) {
            auto* pieces = static_cast<SeenRange*>(args.workspace);
            std::fill(pieces, pieces + items, SeenRange{});
            const auto* x = args.input<float>(0);
            parallel_for(items, 1, [&](int64_t first, int64_t last) {
              for (int64_t i = first; i < last; ++i) {
                runs.for_each(count * i / items, count * (i + 1) / items,
                              [&](int64_t at, int64_t numbers) { pieces[i].add(x + at, numbers); });
              }
            });
            SeenRange all;
            for (int64_t i = 0; i < items; ++i) {
              all.low = std::min(all.low, pieces[i].low);
              all.high = std::max(all.high, pieces[i].high);
              all.not_finite += pieces[i].not_finite;
            }
            auto* range = args.output<float>(0);
            range[0] = all.low;
            range[1] = all.high;
            range[2] = static_cast<float>(all.not_finite);
          }),
          .in = {runs.layout()},
          .workspace_bytes = items * Bytes{sizeof(SeenRange)}};
}

Prepared prepare_bins(const Facts& facts) {
  const ElementRuns runs(facts.in[0]);
  const int64_t bins = facts.out[0].count(), count = runs.places();
  const auto most = static_cast<float>(facts.attrs.f("most"));
  const float factor = static_cast<float>(bins) / (2 * most);
  const int slots = thread_slots();
  const Bytes slot_bytes = round_up(bins * Bytes{sizeof(int32_t)}, kAlignment);
  return {.kernel = make_kernel([=](const Args& args) {
            const auto* x = args.input<float>(0);
            const auto counts_of = [&](int slot) {
              return reinterpret_cast<int32_t*>(static_cast<std::byte*>(args.workspace) + slot * slot_bytes);
            };
            for (int slot = 0; slot < slots; ++slot) std::fill(counts_of(slot), counts_of(slot) + bins, 0);
            const int64_t items = std::max<int64_t>(1, count / kGrain);
            parallel_items(items, slots, [&](int64_t item, int slot) {
              int32_t* counts = counts_of(slot);
              runs.for_each(count * item / items, count * (item + 1) / items, [&](int64_t first, int64_t numbers) {
                for (int64_t i = first; i < first + numbers; ++i) {
                  const float place = (x[i] + most) * factor;
                  // Numbers beyond +-`most` count in the outermost bins; those that are not finite do not count.
                  if (!(std::abs(x[i]) <= std::numeric_limits<float>::max())) continue;
                  ++counts[static_cast<int64_t>(std::clamp(place, 0.0F, static_cast<float>(bins - 1)))];
                }
              });
            });
            auto* total = args.output<int32_t>(0);
            std::fill(total, total + bins, 0);
            for (int slot = 0; slot < slots; ++slot)
              for (int64_t i = 0; i < bins; ++i) total[i] += counts_of(slot)[i];
          }),
          .in = {runs.layout()},
          .workspace_bytes = slots * slot_bytes};
}

template <class Build>
std::vector<Sample> of_images(Build build) {
  return {{"images",
           [=](SampleBuilder& s) {
             return std::vector{build(s.input({Dim::batch(), 3, 4, 2}, -3, 5))};
           },
           1e-4, false},
          {"blocked images",  // in padded blocks, as a convolution leaves them
           [=](SampleBuilder& s) {
             return std::vector{build(conv2d(s.input({Dim::batch(), 8, 3, 2}), s.input({10, 8, 1, 1})))};
           },
           1e-4, false}};
}

const Op kObserveRange{.name = "observe_range",
                       .infer = infer_range,
                       .prepare = prepare_range,
                       .samples = [] { return of_images([](Tensor x) { return observe_range(x); }); },
                       .traits = {.recomputable = true}};
const Op kCountBins{.name = "count_bins",
                    .infer = infer_bins,
                    .prepare = prepare_bins,
                    .samples = [] { return of_images([](Tensor x) { return count_bins(x, 16, 4); }); },
                    .traits = {.recomputable = true}};

}  // namespace

Tensor observe_range(Tensor x, Name name) { return apply(kObserveRange, {x}, {}, name); }

Tensor count_bins(Tensor x, int64_t bins, double most, Name name) {
  return apply(kCountBins, {x}, {{"bins", bins}, {"most", most}}, name);
}

OpList observe_ops() { return {&kObserveRange, &kCountBins}; }

}  // namespace plimsoll::ops
