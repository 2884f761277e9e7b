// The program: parses, runs one verb, and turns what went wrong into an exit code.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "cli/commands.h"
#include "cli/output.h"
#include "memory/code_room.h"
#include "memory/process.h"

namespace plimsoll::cli {
namespace {

int run(int argc, char** argv) {
  Command command;
  if (const std::optional<int> exit_code = parse_command(argc, argv, command)) return *exit_code;
  memory::drop_code_pages();  // code that ran at the start and for parsing
  try {
    return command.run();
  } catch (const DoesNotFit& e) {
    return refuse(command.arguments, command.make_spec, e);
  } catch (const Interrupted&) {
    stop_if_asked();  // throws the reason
    throw;
  }
}

}  // namespace
}  // namespace plimsoll::cli

namespace plimsoll::cli {
namespace {

// Kernels of libraries need some hundred KiB of the stack of each thread, and these stacks are as large as the limit
// says. A lower limit is raised, and the program starts again under it, since the limit counts from the start on.
void expect_stack(char** argv) {
  constexpr rlim_t kLeast = 1024 * 1024, kUsual = 8 * kLeast;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kLeast) return;
  const rlim_t given = limit.rlim_cur;
  if (limit.rlim_max < kUsual) limit.rlim_max = kUsual;  // only a privileged program may
  limit.rlim_cur = std::min(limit.rlim_max, kUsual);
  if (::setrlimit(RLIMIT_STACK, &limit) == 0) ::execv("/proc/self/exe", argv);
  throw Error(
      fmt::format("the stack is limited to {}, and the program needs {}: raise the limit with ulimit -s {}",
                  format_bytes(static_cast<Bytes>(given)), format_bytes(static_cast<Bytes>(kLeast)), kUsual / 1024),
      ErrorKind::General);
}

}  // namespace
}  // namespace plimsoll::cli

int main(int argc, char** argv) {
  using namespace plimsoll;
  memory::drop_code_pages();            // what linking touched would count beside what parsing touches
  memory::set_code_room(17 * MiB / 2);  // flags, readers of all formats, reports: beside what a library's user runs
  cli::watch_signals();
  memory::tame_allocator();
  int exit_code = 1;
  const auto complain = [](const char* what) {
    std::fflush(stdout);
    cli::print_error(std::string("plimsoll: ") + what + "\n");
  };
  try {
    cli::expect_stack(argv);
    exit_code = cli::run(argc, argv);
  } catch (const Error& e) {
    complain(e.what());
    exit_code = e.exit_code();
  } catch (const std::bad_alloc&) {
    complain("the machine has no memory left for the engine's own tables");
  } catch (const std::system_error& e) {
    // From fmt::print: standard output failed; finish_output reports why.
    cli::note_output_failure(e.code().value());
    exit_code = 0;
  } catch (const std::exception& e) {
    complain(e.what());
  }
  return cli::finish_output(exit_code);
}
