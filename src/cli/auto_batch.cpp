#include "cli/auto_batch.h"

#include <algorithm>

#include <fmt/format.h>

namespace plimsoll::cli {
namespace {

constexpr int64_t kLargest = 8192;  // more must be asked for by name
constexpr int64_t kFinest = 64;

int64_t finest_step(int64_t batch) { return std::max<int64_t>(1, batch / kFinest); }

}  // namespace

Attempt attempt(const Settings& settings, Purpose purpose) {
  try {
    return {make_sized_workload(settings, purpose), std::nullopt};
  } catch (const DoesNotFit& e) {
    return {nullptr, e.refusal()};
  }
}

LargestBatch find_largest_batch(const Settings& settings, Purpose purpose, int64_t at_most,
                                const std::function<bool()>& may_go_on) {
  LargestBatch found;
  Settings probe = settings;
  const auto fits = [&](int64_t batch) {
    probe.batch = batch;
    const Attempt tried = attempt(probe, purpose);
    if (tried.fit) {
      found.refused_batch = batch;
      found.deficit = tried.fit->deficit();
      if (!found.nearest || tried.fit->need < found.nearest->need) found.nearest = tried.fit;
    } else {
      found.batch = batch;
    }
    return !tried.fit;
  };
  if (at_most < 1) return found;
  // Fewer samples mostly need less, but not always: for one alone there may be a kernel that takes more.
  int64_t next = std::min<int64_t>(at_most, 16);
  while (!fits(next)) {
    if (next == 1 || !may_go_on()) return found;
    next = std::max<int64_t>(1, next / 4);
  }
  bool is_higher = true;
  while (is_higher && may_go_on()) {
    // Doubling, then halving what is between.
    found.refused_batch = 0;
    while (found.refused_batch == 0 && found.batch < at_most && may_go_on()) fits(std::min(at_most, 2 * found.batch));
    while (found.refused_batch > 0 && found.refused_batch - found.batch > finest_step(found.batch) && may_go_on())
      fits(found.batch + (found.refused_batch - found.batch) / 2);
    // Need does not rise with every sample: kernels and what is worth keeping change. One look further.
    const LargestBatch below = found;
    is_higher = found.refused_batch > 0 && found.batch + found.batch / 8 <= at_most &&
                found.batch + found.batch / 8 > found.refused_batch && fits(found.batch + found.batch / 8);
    if (!is_higher) found = below;
  }
  return found;
}

std::unique_ptr<Workload> make_sized_workload(const Settings& settings, Purpose purpose) {
  if (!settings.auto_batch) return make_workload(settings, purpose);
  Settings whole = settings;
  whole.auto_batch = false;
  whole.without.emplace_back("micro-batch");
  const int64_t at_most = settings.batch > 0 ? settings.batch : kLargest;
  const LargestBatch found = find_largest_batch(whole, purpose, at_most, [] { return true; });
  if (found.batch == 0) throw DoesNotFit(*found.nearest);
  Settings sized = settings;
  sized.auto_batch = false;
  sized.batch = found.batch;
  // The process may have grown a little since the batch was tried.
  Attempt made = attempt(sized, purpose);
  while (made.fit && sized.batch > 1) {
    sized.batch -= finest_step(sized.batch);
    made = attempt(sized, purpose);
  }
  if (made.fit) throw DoesNotFit(*made.fit);
  made.load->batch_reason = found.refused_batch == 0
                                ? fmt::format("batch {} is the most that was asked for{} and fits", sized.batch,
                                              settings.batch > 0 ? "" : " (--batch N allows more)")
                                : fmt::format("batch {} is the largest that fits without parts: {} would need {} more",
                                              sized.batch, found.refused_batch, format_bytes(found.deficit));
  return std::move(made.load);
}

}  // namespace plimsoll::cli
