// How a run ends when it is stopped from outside or its output fails: nothing learned is lost, exit codes tell.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/disk_folder.h"
#include "support/program.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr const char* kData = "--data /usr/share/datasets/fashion-mnist";
constexpr int kStopped = 75;

std::string temp(const std::string& name) { return ::testing::TempDir() + "stopping_" + name; }

// Through a shell, for pipes and redirections; PLIMSOLL stands for the program.
int run_shell(std::string command) {
  for (size_t at = 0; (at = command.find("PLIMSOLL", at)) != std::string::npos;) {
    command.replace(at, 8, PLIMSOLL_BINARY);
    at += std::string_view(PLIMSOLL_BINARY).size();
  }
  const std::string script = temp(fmt::format("{}.sh", ::getpid()));
  std::ofstream(script) << command << "\n";
  const int status = std::system(fmt::format("bash {}", script).c_str());
  std::filesystem::remove(script);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class Child {
 public:
  explicit Child(const std::string& arguments) : id_(::fork()) {
    if (id_ != 0) return;
    const int nothing = ::open("/dev/null", O_RDWR);
    ::dup2(nothing, STDOUT_FILENO);
    ::dup2(nothing, STDERR_FILENO);
    ::execl("/bin/sh", "sh", "-c", fmt::format("exec {} {}", PLIMSOLL_BINARY, arguments).c_str(), nullptr);
    ::_exit(127);
  }
  void send(int signal) const { ::kill(id_, signal); }
  // Whether the program has a handler for that signal; before, it has not begun.
  bool catches(int signal) const {
    std::ifstream status(fmt::format("/proc/{}/status", id_));
    for (std::string line; std::getline(status, line);)
      if (line.rfind("SigCgt:", 0) == 0) return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0;
    return false;
  }
  bool is_program() const {
    std::error_code ignored;
    return std::filesystem::read_symlink(fmt::format("/proc/{}/exe", id_), ignored).filename() == "plimsoll";
  }
  void wait_until_it_catches(int signal) const {
    for (int i = 0; i < 20'000 && !(is_program() && catches(signal)); ++i) std::this_thread::sleep_for(100us);
  }
  // Waits for processor time, since planning takes longer by the clock on a loaded machine: then the program trains.
  void wait_until_it_has_worked_for(std::chrono::seconds time) const {
    const double wanted = static_cast<double>(time.count()) * static_cast<double>(::sysconf(_SC_CLK_TCK));
    for (int i = 0; i < 6'000 && ticks() < wanted; ++i) std::this_thread::sleep_for(10ms);
  }
  int wait() const {
    int status = 0;
    ::waitpid(id_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

 private:
  // Processor time of all its threads: fields 14 and 15 of /proc/PID/stat, whose second field is a name in brackets.
  double ticks() const {
    std::string line;
    std::getline(std::ifstream(fmt::format("/proc/{}/stat", id_)), line);
    std::istringstream rest(line.substr(std::min(line.size(), line.rfind(')') + 1)));
    std::string word;
    for (int i = 3; i < 14; ++i) rest >> word;
    double user = 0, system = 0;
    rest >> user >> system;
    return user + system;
  }

  pid_t id_;
};

TEST(Stopping, ASignalInTheFirstMillisecondsIsExitCode75) {
  for (const char* arguments :
       {"plan resnet50 --memory 1GiB", "plan mlp --curve", "plan resnet18 --memory 64MiB", "profile mlp --steps 1000",
        "train mlp --data /usr/share/datasets/fashion-mnist --epochs 100"})
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      const Child child(arguments);
      child.wait_until_it_catches(signal);
      child.send(signal);
      EXPECT_EQ(child.wait(), kStopped) << arguments << ", signal " << signal;
    }
}

TEST(Stopping, BeforeTheFirstStepAnEarlierFileStays) {
  const std::string file = temp("earlier");
  std::ofstream(file) << "what was there";
  const Child child(fmt::format("train resnet18 --image-size 28 --channels 1 --classes 10 {} --save {}", kData, file));
  child.wait_until_it_catches(SIGINT);
  child.send(SIGINT);
  EXPECT_EQ(child.wait(), kStopped);
  std::string text;
  std::getline(std::ifstream(file), text);
  EXPECT_EQ(text, "what was there");
}

TEST(Stopping, AClosedTerminalKeepsTheWeights) {
  const std::string file = temp("hup.safetensors");
  std::filesystem::remove(file);
  const Child child(fmt::format("train mlp {} --epochs 1000 --save {}", kData, file));
  child.wait_until_it_has_worked_for(4s);
  child.send(SIGHUP);
  child.send(SIGHUP);
  EXPECT_EQ(child.wait(), kStopped);
  EXPECT_EQ(run_program("inspect " + file).exit_code, 0);
}

// timeout signals its child and then the child's group: one request that arrives twice.
TEST(Stopping, TwoSignalsAtOnceAreOneRequest) {
  const std::string file = temp("twice.safetensors");
  std::filesystem::remove(file);
  const Child child(fmt::format("train mlp {} --epochs 1000 --save {}", kData, file));
  child.wait_until_it_has_worked_for(4s);
  child.send(SIGINT);
  child.send(SIGTERM);
  EXPECT_EQ(child.wait(), kStopped);
  EXPECT_EQ(run_program("inspect " + file).exit_code, 0);
}

TEST(Stopping, ASignalASecondLaterEndsAtOnce) {
  int ended = kStopped;
  // Tried again when the step ended between both signals: then the first one has stopped the training.
  for (int i = 0; i < 5 && ended == kStopped; ++i) {
    const Child child(
        fmt::format("train resnet18 --image-size 28 --channels 1 --classes 10 -b 8000 {} --epochs 100 --without "
                    "micro-batch",
                    kData));
    child.wait_until_it_has_worked_for(5s);
    child.send(SIGTERM);
    std::this_thread::sleep_for(1100ms);  // what the program takes for impatience
    child.send(SIGINT);
    ended = child.wait();
  }
  EXPECT_EQ(ended, 1000 + SIGINT);
}

TEST(Stopping, AClosedPipeKeepsTheWeights) {
  const std::string file = temp("pipe.safetensors");
  for (const char* output : {"2>/dev/null | head -1", "2>&1 >/dev/null | head -1"}) {
    std::filesystem::remove(file);
    const std::string progress = output[1] == '>' && output[2] == '/' ? "--json" : "--progress bar";
    EXPECT_EQ(run_shell(fmt::format("PLIMSOLL train mlp {} {} --epochs 200 --save {} {} >/dev/null; "
                                    "exit ${{PIPESTATUS[0]}}",
                                    kData, progress, file, output)),
              kStopped)
        << output;
    EXPECT_EQ(run_program("inspect " + file).exit_code, 0) << output;
  }
  EXPECT_EQ(run_shell("PLIMSOLL inspect gpt2-small --graph | head -1 >/dev/null; exit ${PIPESTATUS[0]}"), kStopped);
}

TEST(Stopping, AFullOutputIsExitCodeFive) {
  for (const std::string& arguments :
       {std::string("--help"), std::string("--version"), std::string("plan mlp"), std::string("plan mlp --json"),
        std::string("plan lenet --curve"), std::string("plan mlp --help"), std::string("doctor"),
        std::string("inspect mlp"), std::string("inspect mlp --graph"), std::string("profile mlp --steps 1"),
        fmt::format("train mlp {} --steps 2", kData), fmt::format("train mlp {} --steps 2 --json", kData)})
    EXPECT_EQ(run_shell(fmt::format("PLIMSOLL {} >/dev/full 2>/dev/null", arguments)), 5) << arguments;
  // Nobody can read the complaint then, but the work is done.
  EXPECT_EQ(run_shell("PLIMSOLL plan mlp >/dev/null 2>/dev/full"), 0);
  EXPECT_EQ(run_shell("PLIMSOLL plan mlp --memory 1MiB >/dev/null 2>/dev/full"), 3);
}

TEST(Stopping, AStoppedEpochHasALine) {
  const Outcome steps = run_program(fmt::format("train mlp {} --steps 3", kData));
  EXPECT_EQ(steps.exit_code, 0);
  EXPECT_THAT(steps.errors, HasSubstr("epoch 1/1  3 of 469 steps  loss "));
  const Outcome signal = run_program(fmt::format("train fashion {} --epochs 500", kData), "timeout -s TERM 5");
  EXPECT_THAT(signal.errors, ::testing::ContainsRegex("epoch [0-9]+/500  [0-9]+ of 469 steps  loss "));
  const Outcome json = run_program(fmt::format("train mlp {} --steps 3 --json", kData));
  EXPECT_EQ(json.event("epoch").value("steps", 0), 3);
}

TEST(Weights, AGivenRateCountsMoreThanThatOfTheFile) {
  const std::string file = temp("rate.safetensors");
  ASSERT_EQ(run_program(fmt::format("train mlp {} --steps 2 --lr 0.002 --save {}", kData, file)).exit_code, 0);
  const auto rate_of = [&](const std::string& flags) {
    const Outcome outcome =
        run_program(fmt::format("train mlp {} --steps 1 --weights {} --json {}", kData, file, flags));
    return outcome.event("weights");
  };
  const auto kept = rate_of("");
  EXPECT_NEAR(kept.value("learning_rate", 0.0), 0.002, 1e-6);
  EXPECT_EQ(kept.value("steps", 0), 2);
  EXPECT_EQ(kept.value("tensors", 0), 6);
  EXPECT_GT(kept.value("state_tensors", 0), 0);
  EXPECT_NEAR(rate_of("--lr 0.03").value("learning_rate", 0.0), 0.03, 1e-6);
  const std::string other = temp("rate2.safetensors");
  const Outcome words =
      run_program(fmt::format("train mlp {} --steps 1 --weights {} --lr 0.03 --save {}", kData, file, other));
  EXPECT_THAT(words.output, HasSubstr(fmt::format("weights from '{}': 6 tensors, optimiser state, 2 steps done, rate "
                                                  "0.03 (given)",
                                                  file)));
  // And it is the rate that was used and saved.
  const Outcome next = run_program(fmt::format("train mlp {} --steps 1 --weights {} --json", kData, other));
  EXPECT_NEAR(next.event("weights").value("learning_rate", 0.0), 0.03, 1e-6);
}

TEST(Disk, TheProbeStaysBelowTheLimit) {
  const DiskFolder folder;
  // A file beyond 8 MiB is refused by the system: the probe must not try.
  EXPECT_EQ(run_shell(fmt::format("ulimit -f 8192; PLIMSOLL plan mlp --scratch {} --disk-limit 8MiB >/dev/null",
                                  static_cast<const std::string&>(folder))),
            0);
}

}  // namespace
}  // namespace plimsoll::testing
