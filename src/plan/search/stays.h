// From actions, in which a task may run several times, to lifetimes: every stay of every buffer, and which ones share a
// slot in place.
#pragma once

#include <vector>

#include "plan/pack/pack.h"
#include "plan/problem.h"
#include "plan/search/slots.h"

namespace plimsoll::plan {

struct Stay {
  BufferId buffer = 0;
  int32_t first_action = 0;
  int32_t last_action = 0;
  int32_t slot = -1;  // -1 for variables
};

struct Stays {
  std::vector<Stay> stays;  // by first action
  std::vector<Slot> slots;
  Bytes peak_bytes = 0;  // variables included
  int32_t peak_action = -1;
};

// A value ends with its last use before the task that first writes it runs again.
Stays find_stays(const Problem& problem, const Sizes& sizes, const std::vector<TaskId>& actions, bool in_place);

// Slots first, then the workspace of each action that has some.
std::vector<PackItem> make_items(const Sizes& sizes, const Stays& stays, const std::vector<TaskId>& actions);

}  // namespace plimsoll::plan
