#include "support/program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/sanitizer.h"

namespace plimsoll::testing {
namespace {

std::string take_file(const std::string& path) {
  std::string text;
  {
    std::ifstream file(path, std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  ::unlink(path.c_str());
  return text;
}

// MPI unloads its modules before a sanitizer looks for leaks, so that tests/leaks.supp can't name theirs.
std::string leave_leaks_of_mpi(const std::string& command) {
  if (!kSanitized) return "";
  for (const char* word : {"--ranks", "--pipeline", "--resume", "mpirun"})
    if (command.find(word) != std::string::npos) return "ASAN_OPTIONS=detect_leaks=0 ";
  return "";
}

}  // namespace

nlohmann::json Outcome::event(const std::string& name) const {
  std::istringstream lines(output);
  std::string line;
  while (std::getline(lines, line)) {
    auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.value("event", "") == name) return json;
  }
  return nullptr;
}

Outcome run_program(const std::string& arguments, const std::string& before) {
  // Tests may run side by side: files are named after the process.
  const std::string base = fmt::format("{}program_{}", ::testing::TempDir(), ::getpid());
  const std::string command = fmt::format("{} {} {}", before, PLIMSOLL_BINARY, arguments);
  const int status =
      std::system(fmt::format("{}{} >{}.out 2>{}.err", leave_leaks_of_mpi(command), command, base, base).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, take_file(base + ".out"), take_file(base + ".err")};
}

}  // namespace plimsoll::testing
