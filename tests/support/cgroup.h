// Runs a child under a memory limit of the operating system, which kills it when it takes one page too many.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <plimsoll/types.h>

namespace plimsoll::testing {

struct LimitedRun {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;      // 0 when it left by itself
  bool oom_killed = false;
  std::optional<Bytes> peak_bytes;  // of the whole group: page cache and kernel memory included
};

struct LimitedOutcome {
  std::optional<LimitedRun> run;
  std::string reason;  // why there is no run
};

// Swap is off. The child runs in a fresh group that is removed afterwards, and dies with the caller.
LimitedOutcome run_limited(const std::vector<std::string>& command, Bytes limit);

// The same for a function in a fork, its return value being the exit code. Not for callers that have started threads.
LimitedOutcome run_limited(const std::function<int()>& child, Bytes limit);

}  // namespace plimsoll::testing
