// Starts mpirun with this program as its ranks, replaces its messages by our own, and restarts from a checkpoint.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include <fmt/format.h>

#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/verbs.h"
#include "memory/descriptor.h"
#include "ranks/launch.h"
#include "train/checkpoint_folder.h"
#include "train/shards.h"

namespace plimsoll::cli {
namespace {

// The command line of a rank: this one without the flags that only the starter reads.
std::vector<std::string> words_of_rank(const Arguments& arguments, bool resumes) {
  std::vector<std::string> words{std::filesystem::read_symlink("/proc/self/exe").string()};
  for (size_t i = 0; i < arguments.words.size(); ++i) {
    const std::string& word = arguments.words[i];
    if (word == "--ranks" || word == "--restarts") {
      ++i;
      continue;
    }
    if (!word.starts_with("--ranks=") && !word.starts_with("--restarts=")) words.push_back(word);
  }
  if (resumes && !arguments.resume) words.emplace_back("--resume");
  return words;
}

// Standard error of mpirun: text of the ranks is passed on; mpirun's own notes are searched for a lost rank and
// dropped.
class ErrorFilter {
 public:
  void take(std::string_view text) {
    for (const char c : text) {
      line_ += c;
      if (c == '\n') end_line();
    }
    // A progress bar has no end of line.
    if (!line_.empty() && !is_note_ && line_[0] != '-' && line_[0] != '[' && !line_.starts_with("mpirun")) flush();
  }
  void finish() {
    if (!line_.empty()) end_line();
  }
  const std::string& lost() const { return lost_; }

 private:
  void end_line() {
    const bool is_rule = line_.starts_with("----------");
    if (is_rule) is_note_ = !is_note_;
    look();
    if (is_rule || is_note_ || line_ == "\n" || is_remark())
      line_.clear();
    else
      flush();
  }
  // "[host:123] 2 more processes have sent help message ..." and similar remarks about help messages.
  bool is_remark() const {
    if (!line_.starts_with('[')) return false;
    for (const char* part : {"] Set MCA parameter", "sent help message", "/show_help.c at line"})
      if (line_.find(part) != std::string::npos) return true;
    return false;
  }
  void flush() {
    print_error(line_);
    line_.clear();
  }
  // "mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 9 (Killed)."
  void look() {
    int rank = 0, signal = 0;
    char node[256] = "";
    if (std::sscanf(line_.c_str(), "mpirun noticed that process rank %d with PID %*d on node %255s exited on signal %d",
                    &rank, node, &signal) == 3)
      lost_ = fmt::format("rank {} on {} was killed by signal {} ({}); all ranks were ended", rank, node, signal,
                          ::strsignal(signal));
  }

  std::string line_;
  bool is_note_ = false;
  std::string lost_;
};

[[noreturn]] void run_child(const std::vector<std::string>& command, int errors) {
  // Signals of the terminal reach the starter alone: it asks the ranks to stop after a step.
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  ::dup2(errors, STDERR_FILENO);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  // Otherwise mpirun's event loop may warn of a descriptor that a lost rank closed.
  ::setenv("EVENT_NOEPOLL", "1", 1);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
  // mpirun handles it, but not while it starts and ends: the closed pipe of a rank that has ended would kill it then.
  std::signal(SIGPIPE, SIG_IGN);
  ::execvp(words[0], words.data());
  ::_exit(127);
}

// The ranks of this machine. mpirun may hang when one is killed while others start: then it is ended from here.
class RankWatch {
 public:
  explicit RankWatch(pid_t mpirun) : mpirun_(mpirun) {}

  // True when all ranks have been gone for a while, and mpirun has not.
  bool is_stuck() {
    std::map<pid_t, int> alive;
    std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", mpirun_));
    for (pid_t child = 0; children >> child;)
      if (const int rank = rank_of(child); rank >= 0) alive[child] = rank;
    for (const auto& [pid, rank] : before_)
      if (first_gone_ < 0 && !alive.contains(pid)) first_gone_ = rank;
    before_ = alive;
    if (!alive.empty() || first_gone_ < 0) gone_since_ = Clock::now();
    return Clock::now() - gone_since_ > std::chrono::seconds(1);
  }
  int first_gone() const { return first_gone_; }

 private:
  using Clock = std::chrono::steady_clock;

  static int rank_of(pid_t process) {
    std::ifstream file(fmt::format("/proc/{}/environ", process), std::ios::binary);
    const std::string variables{std::istreambuf_iterator<char>(file), {}}, name = "OMPI_COMM_WORLD_RANK=";
    const size_t at = variables.find(name);
    return at == std::string::npos ? -1 : std::atoi(variables.c_str() + at + name.size());
  }

  const pid_t mpirun_;
  std::map<pid_t, int> before_;
  int first_gone_ = -1;
  Clock::time_point gone_since_ = Clock::now();
};

struct Ending {
  int exit_code = 0;
  std::string lost;  // which rank, where one was
};

Ending wait_for(pid_t child, int errors) {
  ErrorFilter filter;
  RankWatch watch(child);
  bool was_told = false, was_stuck = false;
  char text[4096];
  while (true) {
    if (is_stop_asked() && !was_told) {
      was_told = true;
      ::kill(child, SIGUSR1);  // mpirun hands it on
    }
    if (!was_stuck && watch.is_stuck()) {
      was_stuck = true;
      ::kill(-child, SIGKILL);
    }
    struct pollfd waiting {
      errors, POLLIN, 0
    };
    if (::poll(&waiting, 1, 200) <= 0) continue;
    const ssize_t got = ::read(errors, text, sizeof text);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    filter.take({text, static_cast<size_t>(got)});
  }
  filter.finish();
  int status = 0;
  memory::uninterrupted([&] { return ::waitpid(child, &status, 0); });
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (was_stuck && filter.lost().empty())
    return {static_cast<int>(ErrorKind::RankLost),
            fmt::format("rank {} was lost; all ranks were ended", watch.first_gone())};
  if (!filter.lost().empty()) return {static_cast<int>(ErrorKind::RankLost), filter.lost()};
  if (code == static_cast<int>(ErrorKind::RankLost)) return {code, "a rank was lost"};
  return {code, {}};
}

Ending run_ranks(int count, const Arguments& arguments, bool resumes) {
  const std::vector<std::string> command = ranks::mpirun_command(count, words_of_rank(arguments, resumes));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw Error(fmt::format("no pipe for mpirun: {}", std::strerror(errno)));
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child < 0) throw Error(fmt::format("mpirun can't be started: {}", std::strerror(errno)));
  if (child == 0) run_child(command, ends[1]);
  ::close(ends[1]);
  Ending ending = wait_for(child, ends[0]);
  ::close(ends[0]);
  if (ending.exit_code == 127)
    throw Error("mpirun was not found; install openmpi-bin, or run ./plimsoll with --ranks, which does so",
                ErrorKind::Usage);
  return ending;
}

bool is_started_by_mpi() {
  return ranks::find_launch([](const char* name) { return std::getenv(name); }).has_value();
}

// Refuses arguments that are wrong on every rank before any rank starts.
void expect_possible(const Arguments& given, int ranks) {
  if (given.resume) return;  // the options are in the config of the run
  Arguments arguments = given;
  if (!given.memory.empty()) arguments.memory = line_of_rank(given.memory, 0, ranks);
  const train::Spec spec = spec_of(arguments, train::Purpose::Train);
  const int64_t batch = spec.batch > 0 || spec.finds_batch ? spec.batch : train::model_of(spec).batch;
  if (!spec.stages.is_set() && batch > 0) train::expect_a_sample_for_each(std::max<int64_t>(ranks, spec.shards), batch);
}

}  // namespace

int count_ranks(const Arguments& arguments) {
  int count = 0;
  const std::string& text = arguments.ranks;
  if (text.empty()) return static_cast<int>(arguments.pipeline.size()) + 1;  // one for each stage
  if (text == "auto") {
    count = ranks::slurm_tasks([](const char* name) { return std::getenv(name); });
    return count > 0 ? count : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (status != std::errc() || end != text.data() + text.size() || count < 1)
    throw Error(fmt::format("--ranks '{}' is no number of ranks; give 2, 4 ..., or auto", text), ErrorKind::Usage);
  return count;
}

bool must_start_ranks(const Arguments& arguments) {
  return (!arguments.ranks.empty() || !arguments.pipeline.empty()) && !is_started_by_mpi();
}

int start_ranks(const Arguments& arguments) {
  const int count = count_ranks(arguments);
  if (!ranks::has_mpi())
    throw Error(
        "ranks need MPI, which can't be loaded; install the package plimsoll-ranks, or in a checkout run ./plimsoll "
        "with "
        "--ranks, which installs and builds it",
        ErrorKind::Usage);
  expect_possible(arguments, count);
  for (int64_t restarts = 0;; ++restarts) {
    // Resumes the run that was lost, unless it was lost before it wrote its config.
    const bool resumes = restarts > 0 && std::filesystem::exists(arguments.run + "/config.json");
    const Ending ending = run_ranks(count, arguments, resumes);
    if (ending.lost.empty()) return ending.exit_code;
    const bool ends = restarts >= arguments.restarts || is_stop_asked();
    if (ending.lost != "a rank was lost" || !ends)
      print_error(
          fmt::format("plimsoll: {}{}\n", ending.lost, ends ? "" : "; starting again from the last checkpoint"));
    if (ends) return ending.exit_code;
  }
}

}  // namespace plimsoll::cli
