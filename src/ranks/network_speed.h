// How fast the ranks can talk to each other, measured before anything is planned.
#pragma once

#include "ranks/communicator.h"

namespace plimsoll::ranks {

struct NetworkSpeed {
  double bytes_per_s = 0;  // that a rank sends while it receives as many; 0: not known
  double message_ns = 0;   // of a message of no size
  bool operator==(const NetworkSpeed&) const = default;
};

// All ranks call it and get the same answer, that of the slowest pair of neighbours. It also makes MPI take the memory
// that it keeps for messages, so that the line counts it.
NetworkSpeed measure_network(Communicator& communicator);

// The time of adding up so many bytes over so many ranks.
double predict_sum_ns(double bytes, int ranks, const NetworkSpeed& speed);

// The time of a message of so many bytes from one rank to another.
double predict_message_ns(double bytes, const NetworkSpeed& speed);

}  // namespace plimsoll::ranks
