// The largest batch under a line, found by planning one after the other.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include <plimsoll/error.h>
#include "cli/workload.h"

namespace plimsoll::cli {

// Either the workload, with the batch searched for when that was asked, or why there is none.
struct Attempt {
  std::unique_ptr<Workload> load;
  std::optional<Refusal> fit;
};
Attempt attempt(const Settings& settings, Purpose purpose);

struct LargestBatch {
  int64_t batch = 0;               // 0: none of those tried fits
  int64_t refused_batch = 0;       // the smallest seen that does not fit; 0: none was
  Bytes deficit = 0;               // of that one
  std::optional<Refusal> nearest;  // of those refused
};

// Exact up to 64 samples, above that at most 1 in 64 too low. Goes on while `may_go_on`, and answers with the largest
// seen so far when it may not.
LargestBatch find_largest_batch(const Settings& settings, Purpose purpose, int64_t at_most,
                                const std::function<bool()>& may_go_on);

// make_workload, with the batch searched for when --auto-batch asks for it: the largest that needs no parts, because
// in parts nearly any would fit and none would be faster.
std::unique_ptr<Workload> make_sized_workload(const Settings& settings, Purpose purpose);

}  // namespace plimsoll::cli
