// What a plan exchanges with other ranks, to be compared between them.
#pragma once

#include <span>
#include <string>

#include "plan/plan.h"
#include "plan/problem.h"

namespace plimsoll::plan {

// A line for each exchange of the plan, in order: its name and the bytes that it changes; or, for one with a single
// rank, "peer R sends A,B receives C NAME" with the bytes of each value. Ranks whose texts are equal, or match, never
// wait for a message that nobody sends.
std::string list_exchanges(const Problem& problem, const Plan& plan);

// Replays the exchanges of all ranks, listed by rank, as messages that wait for each other: an exchange with a single
// rank must meet one of that rank with the same sizes. Empty when all complete; else a sentence that names the ranks
// and the exchanges where they stop.
std::string find_unmatched(std::span<const std::string> lists);

}  // namespace plimsoll::plan
