// From an order of tasks to places in time: when each buffer lives, who may take whose place, and the peak.
#pragma once

#include <vector>

#include "plan/problem.h"

namespace plimsoll::plan {

// What everything occupies, with the whole batch at once or in parts.
struct Sizes {
  std::vector<Bytes> buffers;
  std::vector<Bytes> workspace;  // by task
  Bytes variables = 0;
};
Sizes measure(const Problem& problem, int64_t batch, int64_t part_samples);

// A stretch of time at one place. Buffers that hand their place on in place follow each other in one slot.
struct Slot {
  int32_t first_step = 0;
  int32_t last_step = 0;
  Bytes bytes = 0;
};

// The step with the most bytes alive, variables and its own workspace included; -1 when there are no steps.
struct Peak {
  Bytes bytes = 0;
  int32_t step = -1;
  double area = 0;  // bytes alive without workspace, summed over the steps
};
Peak find_peak(const Sizes& sizes, const std::vector<Slot>& slots, const std::vector<TaskId>& steps);

struct Timeline {
  std::vector<int32_t> first_step, last_step;  // by buffer; -1 when it is never alive
  std::vector<int32_t> slot_of;                // by buffer; -1 for variables and what is never alive
  std::vector<Slot> slots;
  Bytes peak_bytes = 0;  // variables included
  int32_t peak_step = -1;
  double area = 0;  // bytes x steps: breaks ties between orders of equal peak
};
Timeline make_timeline(const Problem& problem, const Sizes& sizes, const std::vector<TaskId>& order, bool in_place);
// The same into one that was made before, whose memory is used again.
void find_timeline(const Problem& problem, const Sizes& sizes, const std::vector<TaskId>& order, bool in_place,
                   Timeline& timeline);

}  // namespace plimsoll::plan
