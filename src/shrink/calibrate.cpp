#include "shrink/calibrate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "ops/ops.h"

namespace plimsoll::shrink {
namespace {

struct Observed {
  ValueId value;
  ValueRange range = {};
  ValueHistogram histogram = {.most = 1, .counts = {}};
};

using Look = std::function<Tensor(const Observed&, Tensor)>;

// The same model, but with the results of `look` for each observed value as its outputs.
Model observing_model(const std::shared_ptr<const model::TracedModel>& traced,
                      std::shared_ptr<const std::vector<Observed>> values, Look look) {
  std::vector<std::string> inputs, outputs;
  for (const auto& [name, id] : traced->inference.inputs) inputs.push_back(name);
  for (const Observed& observed : *values) outputs.push_back(fmt::format("value_{}", observed.value));
  return {traced->name, std::move(inputs), std::move(outputs),
          [traced, values = std::move(values), look = std::move(look)](const NamedTensors& given, bool) {
            std::vector<Tensor> seen(traced->inference.graph->body().values().size());
            for (const auto& [name, id] : traced->inference.inputs) seen[static_cast<size_t>(id)] = given[name];
            model::Rewrite rewrite;
            rewrite.node = [&](model::ReplayedNode& node) -> std::optional<std::vector<Tensor>> {
              std::vector<Tensor> made = node.replay();
              for (size_t i = 0; i < made.size(); ++i)
                seen[static_cast<size_t>(node.node().first_output) + i] = made[i];
              return made;
            };
            replay(traced->inference, given, rewrite);
            NamedTensors results;
            for (const Observed& observed : *values)
              results.add(fmt::format("value_{}", observed.value),
                          look(observed, seen[static_cast<size_t>(observed.value)]));
            return results;
          }};
}

void expect_finite(const Observed& observed, float not_finite, const graph::Body& body) {
  if (not_finite == 0) return;
  throw Error(
      fmt::format("'{}' is not finite for {} numbers of the calibration data (NaN or infinity); look for them in "
                  "the data and in the weights",
                  body.name(body.value(observed.value)), not_finite),
      ErrorKind::BadNumbers);
}

Model ranging_model(const std::shared_ptr<const model::TracedModel>& traced, const std::vector<Observed>& values) {
  return observing_model(traced, std::make_shared<const std::vector<Observed>>(values),
                         [](const Observed&, Tensor x) { return ops::observe_range(x); });
}

int64_t observe_ranges(const std::shared_ptr<const model::TracedModel>& traced, std::vector<Observed>& values,
                       const RunModel& run) {
  int64_t samples = 0;
  run(ranging_model(traced, values), [&](const Results& results, int64_t batch) {
    samples += batch;
    for (size_t i = 0; i < values.size(); ++i) {
      const std::span<const float> seen = results[i].floats();
      expect_finite(values[i], seen[2], traced->inference.graph->body());
      values[i].range.low = std::min(values[i].range.low, static_cast<double>(seen[0]));
      values[i].range.high = std::max(values[i].range.high, static_cast<double>(seen[1]));
    }
  });
  if (samples == 0) throw Error("the calibration data has no samples; give at least one batch", ErrorKind::BadData);
  return samples;
}

Model counting_model(const std::shared_ptr<const model::TracedModel>& traced, const std::vector<Observed>& values,
                     int64_t bins) {
  return observing_model(traced, std::make_shared<const std::vector<Observed>>(values),
                         [bins](const Observed& of, Tensor x) { return ops::count_bins(x, bins, of.histogram.most); });
}

void count_numbers(const std::shared_ptr<const model::TracedModel>& traced, std::vector<Observed>& values, int64_t bins,
                   const RunModel& run) {
  for (Observed& observed : values) {
    // A value that is always 0 gets bins from -1 to 1.
    const double most = std::max(-observed.range.low, observed.range.high);
    observed.histogram = {most > 0 ? most : 1, std::vector<int64_t>(static_cast<size_t>(bins))};
  }
  run(counting_model(traced, values, bins), [&](const Results& results, int64_t) {
    for (size_t i = 0; i < values.size(); ++i) {
      const std::span<const int32_t> counts = results[i].as<int32_t>();
      for (size_t bin = 0; bin < counts.size(); ++bin) values[i].histogram.counts[bin] += counts[bin];
    }
  });
}

ValueRange within(ValueRange range, const ValueRange& seen) {
  return {std::clamp(range.low, seen.low, 0.0), std::clamp(range.high, 0.0, seen.high)};
}

// What is added to bins without a count is taken from the others, so that no probability is 0.
bool smooth(std::vector<double>& distribution) {
  constexpr double kLittle = 1e-4;
  const auto zeros = static_cast<double>(std::count(distribution.begin(), distribution.end(), 0.0));
  const double others = static_cast<double>(distribution.size()) - zeros;
  if (others == 0) return false;
  for (double& number : distribution) number += number == 0 ? kLittle : -kLittle * zeros / others;
  return true;
}

// The Kullback-Leibler divergence of q from p; both are normalised first.
double divergence(const std::vector<double>& p, const std::vector<double>& q) {
  const double all_p = std::accumulate(p.begin(), p.end(), 0.0), all_q = std::accumulate(q.begin(), q.end(), 0.0);
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += p[i] / all_p * std::log(p[i] / all_p / (q[i] / all_q));
  return sum;
}

// How far the distribution is from what is left of it when the bins [first, last) are merged into `quantised_bins`.
double divergence_of(const std::vector<int64_t>& counts, size_t first, size_t last, size_t quantised_bins) {
  const std::vector<double> sliced(counts.begin() + static_cast<std::ptrdiff_t>(first),
                                   counts.begin() + static_cast<std::ptrdiff_t>(last));
  std::vector<double> p = sliced, q(sliced.size());
  for (size_t i = 0; i < first; ++i) p.front() += static_cast<double>(counts[i]);
  for (size_t i = last; i < counts.size(); ++i) p.back() += static_cast<double>(counts[i]);
  const size_t merged = sliced.size() / quantised_bins;
  for (size_t bin = 0; bin < quantised_bins; ++bin) {
    const size_t begin = bin * merged, end = begin + merged;
    double sum = 0, filled = 0;
    for (size_t i = begin; i < (bin + 1 == quantised_bins ? sliced.size() : end); ++i) sum += sliced[i];
    for (size_t i = begin; i < end; ++i) filled += p[i] != 0 ? 1 : 0;
    for (size_t i = begin; i < end && filled > 0; ++i) q[i] = sum / filled;
  }
  return smooth(p) && smooth(q) ? divergence(p, q) : std::numeric_limits<double>::infinity();
}

void expect_sense(const QuantiseOptions& options) {
  const std::string& kind = options.calibration;
  if (kind != "minmax" && kind != "percentile" && kind != "entropy")
    throw Error(fmt::format("calibration can't be '{}'; it is minmax, percentile or entropy", kind), ErrorKind::Usage);
  if (!(options.percentile > 50 && options.percentile <= 100))
    throw Error(fmt::format("the percentile must be above 50 and at most 100 but is {}", options.percentile),
                ErrorKind::Usage);
  if (options.bins != 0 && (options.bins < 128 || options.bins > 8192))
    throw Error(fmt::format("histograms have 128 to 8192 bins but {} are asked for", options.bins), ErrorKind::Usage);
}

}  // namespace

ByteScale scale_of(const ValueRange& range) {
  const double width = range.high - range.low;
  // Too narrow for a float to tell its steps apart: the value is a constant 0.
  if (width < std::numeric_limits<float>::min() * 255.0) return {};
  const double scale = static_cast<double>(static_cast<float>(width / 255));
  return {scale, std::clamp<int64_t>(std::llrint(-range.low / scale), 0, 255)};
}

double ValueHistogram::edge(size_t bin) const {
  return -most + 2 * most * static_cast<double>(bin) / static_cast<double>(counts.size());
}

ValueRange percentile_range(const ValueHistogram& histogram, const ValueRange& seen, double percentile) {
  const double total =
      static_cast<double>(std::accumulate(histogram.counts.begin(), histogram.counts.end(), int64_t{0}));
  const double cut = (100 - percentile) / 200;
  // The first bin up to which at least that share of the numbers lies.
  const auto bin_at = [&](double share) {
    double sum = 0;
    for (size_t bin = 0; bin < histogram.counts.size(); ++bin) {
      sum += static_cast<double>(histogram.counts[bin]);
      if (sum >= share * total) return bin;
    }
    return histogram.counts.size();
  };
  return within({histogram.edge(bin_at(cut)), histogram.edge(bin_at(1 - cut))}, seen);
}

ValueRange entropy_range(const ValueHistogram& histogram, const ValueRange& seen, int64_t quantised_bins) {
  const size_t bins = histogram.counts.size(), middle = bins / 2, half = static_cast<size_t>(quantised_bins) / 2;
  double least = std::numeric_limits<double>::infinity();
  ValueRange best = seen;
  for (size_t reach = half; reach <= middle; ++reach) {
    const size_t first = middle - reach, last = std::min(middle + reach + 1, bins);
    const double found = divergence_of(histogram.counts, first, last, static_cast<size_t>(quantised_bins));
    if (!(found < least)) continue;
    least = found;
    best = {histogram.edge(first), histogram.edge(last)};
  }
  return within(best, seen);
}

Calibration calibrate(const std::shared_ptr<const model::TracedModel>& traced, const Int8Graph& graph,
                      const QuantiseOptions& options, const RunModel& run) {
  expect_sense(options);
  std::vector<Observed> values;
  // Inputs too: a relu after the first layer would hide numbers that are not finite.
  std::vector<bool> is_observed = graph.needs_bytes;
  for (const auto& [name, id] : graph.pass->inputs)
    if (graph.body().value(id).type.dtype == DType::F32) is_observed[static_cast<size_t>(id)] = true;
  for (ValueId id = 0; id < graph.pass->end.values; ++id)
    if (is_observed[static_cast<size_t>(id)]) values.push_back({id});
  const bool by_entropy = options.calibration == "entropy", counts = options.calibration != "minmax";
  const int64_t bins = options.bins != 0 ? options.bins : by_entropy ? 128 : 2048;
  // Both runs are planned before one of them runs: what does not fit is refused at once.
  run(ranging_model(traced, values), {});
  if (counts) {
    for (Observed& observed : values) observed.histogram.counts.resize(static_cast<size_t>(bins));
    run(counting_model(traced, values, bins), {});
  }
  Calibration calibration{std::vector<ValueRange>(graph.needs_bytes.size()), observe_ranges(traced, values, run)};
  if (counts) {
    count_numbers(traced, values, bins, run);
    for (Observed& observed : values)
      observed.range = by_entropy ? entropy_range(observed.histogram, observed.range)
                                  : percentile_range(observed.histogram, observed.range, options.percentile);
  }
  const auto range_of = [&](ValueId id) -> ValueRange& {
    return calibration.ranges[static_cast<size_t>(graph.same_scale[static_cast<size_t>(id)])];
  };
  for (const Observed& observed : values) {
    ValueRange& range = range_of(observed.value);
    range = {std::min(range.low, observed.range.low), std::max(range.high, observed.range.high)};
  }
  for (const Observed& observed : values)
    calibration.ranges[static_cast<size_t>(observed.value)] = range_of(observed.value);
  return calibration;
}

}  // namespace plimsoll::shrink
