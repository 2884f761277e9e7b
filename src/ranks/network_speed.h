// How fast the ranks exchange messages, measured before anything is planned.
#pragma once

#include <string>

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

// A speed as people write it, of one direction, with the time of a message behind it where it is known: "10Gb/s",
// "1.25GB/s,50us". Throws Error(Usage) for what is none.
NetworkSpeed parse_network(const std::string& text);
std::string to_text(const NetworkSpeed& speed);  // "10 Gb/s, 50 us a message"

// The bytes that a rank sends for one half of a sum over so many ranks, or for gathering parts of all.
double half_sum_bytes(double bytes, int ranks);
// The time of one half of a sum: parts are added up, and each rank has its own afterwards; or of gathering them again.
double predict_half_sum_ns(double bytes, int ranks, const NetworkSpeed& speed);
// The time of adding up so many bytes over so many ranks: both.
double predict_sum_ns(double bytes, int ranks, const NetworkSpeed& speed);

// The time of a message of so many bytes from one rank to another.
double predict_message_ns(double bytes, const NetworkSpeed& speed);

}  // namespace plimsoll::ranks
