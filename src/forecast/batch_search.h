// The largest batch under a line, found by planning one after the other.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include <plimsoll/error.h>
#include "train/training.h"

namespace plimsoll::forecast {

// Either the training, with the batch searched for when that was asked, or why there is none.
struct Attempt {
  std::unique_ptr<train::Training> training;
  std::optional<Refusal> refusal;
};
Attempt attempt(const train::Spec& spec, const StopQuestion& is_stop_asked = never_stops);

struct LargestBatch {
  int64_t batch = 0;               // 0: none of those tried fits
  int64_t refused_batch = 0;       // the smallest seen that does not fit; 0: none was
  Bytes deficit = 0;               // of refused_batch
  std::optional<Refusal> nearest;  // the refusal with the lowest need
};

// Exact up to 64 samples, above that at most 1 in 64 too low. When `may_go_on` says no, the answer is the largest batch
// seen so far.
LargestBatch find_largest_batch(const train::Spec& spec, int64_t at_most, const std::function<bool()>& may_go_on,
                                const StopQuestion& is_stop_asked = never_stops);

// make_training, with the batch searched for when Spec::finds_batch asks for it: the largest that needs no
// micro-batches, because in micro-batches nearly any batch would fit and none would be faster.
std::unique_ptr<train::Training> make_sized_training(const train::Spec& spec,
                                                     const StopQuestion& is_stop_asked = never_stops);

}  // namespace plimsoll::forecast
