// Cutting the batch: which tasks run for each micro-batch of it, which run once before or after, and what the
// micro-batches add into.
#pragma once

#include <vector>

#include "plan/problem.h"

namespace plimsoll::plan {

struct Split {
  enum class When : uint8_t { Before, Inside, After };
  TaskId mixing = -1;      // the task that forbids it, because it needs the whole batch at once
  std::vector<When> when;  // by task
  std::vector<bool>
      has_rows;              // by task: works on the samples of one micro-batch; others inside only make them something
  std::vector<bool> is_sum;  // by buffer: micro-batches add into it
  std::vector<bool> is_collected;  // by buffer: rows that a task after the micro-batches needs all of
  bool is_possible() const { return mixing < 0; }
};
Split find_split(const Problem& problem);

// Micro-batches of so many samples; the last one takes what is left.
std::vector<int64_t> cut_batch(int64_t batch, int64_t samples);

}  // namespace plimsoll::plan
