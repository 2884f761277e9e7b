// limited BYTES COMMAND...: runs a command in a control group of so many bytes, or without a limit where no control
// group can be made.
#include <sys/wait.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>

#include "support/cgroup.h"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::vector<std::string> command(argv + 2, argv + argc);
  const auto outcome = plimsoll::testing::run_limited(command, std::strtoll(argv[1], nullptr, 10));
  if (!outcome.run) {
    std::fprintf(stderr, "no control group (%s)\n", outcome.reason.c_str());
    ::execvp(argv[2], argv + 2);
    return 127;
  }
  if (outcome.run->oom_killed) std::puts("killed: it took more than the control group has");
  return outcome.run->exit_code < 0 ? 1 : outcome.run->exit_code;
}
