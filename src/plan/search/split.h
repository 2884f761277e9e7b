// Cutting the batch: which tasks run for each part of it, which run once before or after, and what the parts add into.
#pragma once

#include <vector>

#include "plan/problem.h"

namespace plimsoll::plan {

struct Split {
  enum class When : uint8_t { Before, Inside, After };
  TaskId mixing = -1;              // the task that forbids it, because it needs the whole batch at once
  std::vector<When> when;          // by task
  std::vector<bool> has_rows;      // by task: works on the samples of one part; others inside only make them something
  std::vector<bool> is_sum;        // by buffer: parts add into it
  std::vector<bool> is_collected;  // by buffer: rows that a task after the parts needs all of
  bool is_possible() const { return mixing < 0; }
};
Split find_split(const Problem& problem);

// Parts of so many samples; the last one takes what is left.
std::vector<int64_t> cut_batch(int64_t batch, int64_t part_samples);

}  // namespace plimsoll::plan
