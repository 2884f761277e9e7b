// Joins the ranks that mpirun or srun started, as the program and the library both do.
#pragma once

#include <functional>
#include <memory>

#include "ranks/network_speed.h"

namespace plimsoll::together {

// Whether this process was started as one of several ranks.
bool is_one_of_several();

struct JoinedRanks {
  std::shared_ptr<ranks::Communicator> communicator;
  ranks::NetworkSpeed network;
  Bytes bytes = 0;  // what MPI holds beside the heap
  int threads = 1;  // the share of this rank in those of its machine
};
// What MPI takes in a rank beside the heap, and with it, for plans of ranks that do not exist. Two take up to 10 MiB
// each, more or less from run to run: at least so much counts, so that equal runs make equal plans.
constexpr Bytes kBytesBesideHeap = 10 * MiB, kBytesOfRank = 27 * MiB / 2;

// For a process that is one of several. To be called once, since MPI can't be started again. Throws Error.
JoinedRanks join_ranks(double timeout_s, const std::function<bool()>& is_end_asked = {});

}  // namespace plimsoll::together
