// Transfers run beside the computation: what that takes in time, and how early a load may start.
#pragma once

#include <vector>

#include "plan/search/staged.h"

namespace plimsoll::plan {

enum class Disk : uint8_t { AtHand, Ordinary };

// The time of the steps (tasks of the staged problem), with one transfer at a time running beside them.
double predict_ns(const Staged& staged, const std::vector<TaskId>& steps, Disk which);

// The same steps with loads started so much earlier that they are done when needed, as far as `peak_bytes` leaves room.
std::vector<TaskId> read_ahead(const Staged& staged, const std::vector<TaskId>& steps, bool in_place, Bytes peak_bytes);

}  // namespace plimsoll::plan
