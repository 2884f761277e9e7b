// Lanes run beside each other: what that takes in time, and how early a load may start.
#pragma once

#include <vector>

#include "plan/search/staged.h"

namespace plimsoll::plan {

enum class Disk : uint8_t { AtHand, Ordinary };

// The time of the actions (tasks of the staged problem): that of the slowest chain through all lanes. The computation
// hands each task of another lane on when it comes to it; that one starts when its lane and what it needs are ready.
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
