// limited BYTES COMMAND...: runs a command in a control group of so many bytes. Where no control group can be made the
// command runs without a limit, and what succeeds then is told to be skipped.
#include <sys/wait.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>

#include "support/cgroup.h"

namespace {

constexpr int kSkipped = 77;

int run_without_limit(char** command, const std::string& reason) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::execvp(command[0], command);
    ::_exit(127);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 1;
  if (WEXITSTATUS(status) != 0) return WEXITSTATUS(status);
  std::printf("skipped: it ran without a limit, no control group could be made (%s)\n", reason.c_str());
  return kSkipped;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::vector<std::string> command(argv + 2, argv + argc);
  const auto outcome = plimsoll::testing::run_limited(command, std::strtoll(argv[1], nullptr, 10));
  if (!outcome.run) return run_without_limit(argv + 2, outcome.reason);
  if (outcome.run->oom_killed) std::puts("killed: it took more than the control group has");
  return outcome.run->exit_code < 0 ? 1 : outcome.run->exit_code;
}
