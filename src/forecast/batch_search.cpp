#include "forecast/batch_search.h"

#include <algorithm>

#include <fmt/format.h>

namespace plimsoll::forecast {
namespace {

constexpr int64_t kLargest = 8192;  // unless Spec::batch allows more
constexpr int64_t kFinest = 64;

int64_t finest_step(int64_t batch) { return std::max<int64_t>(1, batch / kFinest); }

// A batch is cut evenly over a pipeline's micro-batches and over shards: only multiples of their number are tried.
int64_t batch_unit(const train::Spec& spec) {
  if (spec.stages.is_set()) return std::max<int64_t>(1, spec.stages.micro_batches);
  return std::max<int64_t>({1, spec.shards, spec.communicator ? spec.communicator->size() : 1});
}

}  // namespace

Attempt attempt(const train::Spec& spec, const StopQuestion& is_stop_asked) {
  try {
    return {make_sized_training(spec, is_stop_asked), std::nullopt};
  } catch (const DoesNotFit& e) {
    return {nullptr, e.refusal()};
  }
}

LargestBatch find_largest_batch(const train::Spec& spec, int64_t at_most, const std::function<bool()>& may_go_on,
                                const StopQuestion& is_stop_asked) {
  LargestBatch found;
  train::Spec probe = spec;
  const int64_t unit = batch_unit(spec);
  // From here on to the end, batches are counted in units.
  at_most /= unit;
  const auto in_samples = [unit](LargestBatch result) {
    result.batch *= unit;
    result.refused_batch *= unit;
    return result;
  };
  const auto fits = [&](int64_t batch) {
    probe.batch = batch * unit;
    const Attempt tried = attempt(probe, is_stop_asked);
    if (tried.refusal) {
      found.refused_batch = batch;
      found.deficit = tried.refusal->deficit();
      if (!found.nearest || tried.refusal->need < found.nearest->need) found.nearest = tried.refusal;
    } else {
      found.batch = batch;
    }
    return !tried.refusal;
  };
  if (at_most < 1) return found;
  // Fewer samples mostly need less memory, but not always: a kernel for one sample may take more workspace.
  int64_t next = std::clamp<int64_t>(16 / unit, 1, at_most);
  while (!fits(next)) {
    if (next == 1 || !may_go_on()) return in_samples(found);
    next = std::max<int64_t>(1, next / 4);
  }
  bool is_higher = true;
  while (is_higher && may_go_on()) {
    // Doubling, then bisection.
    found.refused_batch = 0;
    while (found.refused_batch == 0 && found.batch < at_most && may_go_on()) fits(std::min(at_most, 2 * found.batch));
    while (found.refused_batch > 0 && found.refused_batch - found.batch > finest_step(found.batch) && may_go_on())
      fits(found.batch + (found.refused_batch - found.batch) / 2);
    // The need is not monotone, since kernels and masks change with the batch: one larger batch is tried too.
    const LargestBatch below = found;
    is_higher = found.refused_batch > 0 && found.batch + found.batch / 8 <= at_most &&
                found.batch + found.batch / 8 > found.refused_batch && fits(found.batch + found.batch / 8);
    if (!is_higher) found = below;
  }
  return in_samples(found);
}

std::unique_ptr<train::Training> make_sized_training(const train::Spec& spec, const StopQuestion& is_stop_asked) {
  if (!spec.finds_batch) return train::make_training(spec, is_stop_asked);
  train::Spec sized = spec;
  sized.finds_batch = false;
  train::Spec whole = sized;
  whole.levers.micro_batch = false;
  const int64_t at_most = spec.batch > 0 ? spec.batch : kLargest;
  const LargestBatch found = find_largest_batch(
      whole, at_most, [] { return true; }, is_stop_asked);
  const int64_t unit = batch_unit(spec);
  if (at_most < unit) return train::make_training(sized, is_stop_asked);  // which refuses it
  if (found.batch == 0) throw DoesNotFit(*found.nearest);
  sized.batch = found.batch;
  // The process may have grown a little since the batch was tried.
  Attempt made = attempt(sized, is_stop_asked);
  while (made.refusal && sized.batch > unit) {
    sized.batch -= finest_step(sized.batch / unit) * unit;
    made = attempt(sized, is_stop_asked);
  }
  if (made.refusal) throw DoesNotFit(*made.refusal);
  made.training->batch_reason =
      found.refused_batch == 0
          ? fmt::format("batch {} is the most that was asked for{} and fits", sized.batch,
                        spec.batch > 0 ? "" : " (a larger one must be allowed)")
          : fmt::format("batch {} is the largest that fits without micro-batches: {} would need {} more", sized.batch,
                        found.refused_batch, format_bytes(found.deficit));
  return std::move(made.training);
}

}  // namespace plimsoll::forecast
