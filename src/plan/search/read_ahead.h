// The time of actions on concurrent lanes, and how early loads start.
#pragma once

#include <vector>

#include "plan/search/staged.h"

namespace plimsoll::plan {

enum class Disk : uint8_t { AtHand, Ordinary };

// The time of the actions (tasks of the staged problem): that of the slowest chain through all lanes. The compute lane
// queues a task of another lane when it comes to it; the task starts when its lane is free and its operands are ready.
double predict_ns(const Staged& staged, const std::vector<TaskId>& actions, Disk which);

enum class Ahead : uint8_t {
  EachAlone,  // each load as if it had the disk for itself, wherever there is room
  InOneRow,   // so that the disk is done with all of them in time: in the order of their use, with some room left
};

// The same actions with loads started so much earlier that they are done when needed, as far as `peak_bytes` leaves
// room.
std::vector<TaskId> read_ahead(const Staged& staged, const std::vector<TaskId>& actions, bool in_place,
                               Bytes peak_bytes, Ahead how);

}  // namespace plimsoll::plan
