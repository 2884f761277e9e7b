// A training by several ranks under way: its processes can be found, stopped and killed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "support/program.h"

namespace plimsoll::testing {

class RankRun {
 public:
  using Clock = std::chrono::steady_clock;

  // `mark` occurs in the command lines of its ranks, and of no other process.
  RankRun(const std::string& arguments, std::string mark)
      : mark_(std::move(mark)), thread_([this, arguments] {
          outcome_ = run_program(arguments);
          ended_ = Clock::now();
        }) {}
  ~RankRun() {
    if (thread_.joinable()) thread_.join();
  }

  // Process ids by rank, as many as there are now.
  std::map<int, pid_t> ranks() const {
    std::map<int, pid_t> found;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", none)) {
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      if (content(entry.path() / "cmdline").find(mark_) == std::string::npos) continue;
      const std::string environment = content(entry.path() / "environ");
      const std::string variable = "OMPI_COMM_WORLD_RANK=";
      const size_t at = environment.find(variable);
      if (at != std::string::npos) found[std::stoi(environment.substr(at + variable.size()))] = std::stoi(name);
    }
    return found;
  }
  // Waits for a condition, a minute at most.
  template <class Condition>
  static bool wait_until(const Condition& condition) {
    const auto limit = Clock::now() + std::chrono::minutes(1);
    while (!condition())
      if (Clock::now() > limit)
        return false;
      else
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return true;
  }

  void send(int rank, int signal) {
    const auto all = ranks();
    if (const auto found = all.find(rank); found != all.end()) ::kill(found->second, signal);
    sent_ = Clock::now();
  }
  const Outcome& wait() {
    if (thread_.joinable()) thread_.join();
    return outcome_;
  }
  double seconds_to_end() const { return std::chrono::duration<double>(ended_ - sent_).count(); }

 private:
  static std::string content(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::string mark_;
  Outcome outcome_;
  Clock::time_point sent_, ended_;
  std::thread thread_;
};

}  // namespace plimsoll::testing
