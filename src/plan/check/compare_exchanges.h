// Whether ranks that run the same step make the same exchanges in the same order.
#pragma once

#include <span>
#include <string>

namespace plimsoll::plan {

// Given the lists of all ranks in order, each as list_exchanges makes it: the first exchange in which one differs from
// rank 0, in a sentence. Empty: all match.
std::string compare_exchanges(std::span<const std::string> lists);

}  // namespace plimsoll::plan
