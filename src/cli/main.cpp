// The program: parses, runs one verb, and turns what went wrong into an exit code.
#include <cstdio>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <system_error>

#include <plimsoll/error.h>
#include "cli/commands.h"
#include "cli/output.h"
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
    return refuse(command.arguments, command.purpose, e);
  } catch (const train::Interrupted&) {
    stop_if_asked();  // throws the reason
    throw;
  }
}

}  // namespace
}  // namespace plimsoll::cli

int main(int argc, char** argv) {
  using namespace plimsoll;
  cli::watch_signals();
  memory::tame_allocator();
  int exit_code = 1;
  const auto complain = [](const char* what) {
    std::fflush(stdout);
    cli::print_error(std::string("plimsoll: ") + what + "\n");
  };
  try {
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
