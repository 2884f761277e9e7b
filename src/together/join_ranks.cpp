#include "together/join_ranks.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "memory/process.h"
#include "ranks/launch.h"

namespace plimsoll::together {
namespace {

constexpr Bytes kQuantum = MiB / 2;  // rounded, so that equal runs make equal plans

std::optional<ranks::Launch> own_launch() {
  return ranks::find_launch([](const char* name) { return std::getenv(name); });
}

// Shared memory and code, which the estimate of the process does not know of libraries that are loaded late. Callers
// drop code pages before: how much start-up code is resident differs from run to run, and it is not used again.
Bytes bytes_beside_heap() {
  const memory::ProcessMemory now = memory::measure_process_memory();
  return now.private_bytes + now.file_bytes - now.heap_bytes;
}

}  // namespace

bool is_one_of_several() {
  const auto launch = own_launch();
  return launch && launch->size > 1;
}

JoinedRanks join_ranks(double timeout_s, const std::function<bool()>& is_end_asked) {
  JoinedRanks joined;
  memory::drop_code_pages();
  const Bytes before = bytes_beside_heap();
  const std::chrono::milliseconds timeout(static_cast<int64_t>(timeout_s * 1000));
  joined.communicator = ranks::open_mpi(timeout, is_end_asked);
  memory::drop_code_pages();
  joined.network = ranks::measure_network(*joined.communicator);
  joined.bytes = round_up(std::max(kBytesBesideHeap, bytes_beside_heap() - before), kQuantum);
  const auto launch = own_launch();
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  joined.threads = std::max(1, cores / (launch ? launch->local_size : 1));
  return joined;
}

}  // namespace plimsoll::together
