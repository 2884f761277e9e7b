// The ranges that the values of a model take on data, gathered in fixed memory: a few numbers for each value, computed
// where the values lie.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include <plimsoll/session.h>
#include <plimsoll/shrink.h>
#include "shrink/int8_graph.h"

namespace plimsoll::shrink {

struct ValueRange {
  double low = 0, high = 0;  // 0 is always within
};

// How bytes stand for numbers: number = scale (byte - zero).
struct ByteScale {
  double scale = 1;
  int64_t zero = 0;
};
ByteScale scale_of(const ValueRange& range);

// Equal bins from -most to most.
struct ValueHistogram {
  double most = 0;
  std::vector<int64_t> counts;
  double edge(size_t bin) const;  // the lower one of that bin
};
// As ONNX Runtime's calibrators have them; `seen` is what all numbers were within.
ValueRange percentile_range(const ValueHistogram& histogram, const ValueRange& seen, double percentile);
ValueRange entropy_range(const ValueHistogram& histogram, const ValueRange& seen, int64_t quantised_bins = 128);

// Runs a model over the data: its outputs for each batch go to the function. Without a function it is only planned.
using EachBatch = std::function<void(const Results& outputs, int64_t samples)>;
using RunModel = std::function<void(const Model& model, const EachBatch& each)>;

struct Calibration {
  std::vector<ValueRange> ranges;  // by value of the pass; of those that are bytes
  int64_t samples = 0;
};

// Values that share a scale get one range. Throws Error: BadData for no samples, BadNumbers for a value that is not
// finite, Usage for options that make no sense.
Calibration calibrate(const std::shared_ptr<const model::TracedModel>& traced, const Int8Graph& graph,
                      const QuantiseOptions& options, const RunModel& run);

}  // namespace plimsoll::shrink
