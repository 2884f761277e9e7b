#include "support/cgroup.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <sstream>

namespace plimsoll::testing {
namespace {

constexpr int kNotEntered = 126;  // the exit code of a child that could not join its group

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

bool write_text(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool done = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(file);
  return done;
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// The path of this process in the hierarchy with `controller` ("" for v2), without a trailing slash.
std::string own_path(const std::string& controller) {
  std::istringstream lines(read_text("/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || line.substr(first + 1, second - first - 1) != controller) continue;
    const std::string path = line.substr(second + 1);
    return path == "/" ? "" : path;
  }
  return "";
}

class Cgroup {
 public:
  // Tries the top of each hierarchy, then the parent of this process's group and the group itself: the places where
  // root and a delegated user may make one.
  explicit Cgroup(Bytes limit) {
    for (const auto& [mount, controller] : {std::pair<std::string, std::string>{"/sys/fs/cgroup/memory", "memory"},
                                            {"/sys/fs/cgroup", ""},
                                            {"/sys/fs/cgroup/unified", ""}}) {
      const std::string own = own_path(controller);
      const std::string parent = own.substr(0, own.empty() ? 0 : own.rfind('/'));
      for (const std::string& below : {std::string(), parent, own})
        if (make(mount + below, limit)) return;
    }
    if (reason_.empty()) reason_ = "no memory control group is mounted under /sys/fs/cgroup";
  }

  ~Cgroup() {
    if (folder_.empty()) return;
    // The kernel lets go of the last process a moment after it was reaped.
    for (int attempt = 0; attempt < 100 && ::rmdir(folder_.c_str()) != 0 && errno == EBUSY; ++attempt) {
      std::istringstream left(read_text(folder_ + "/cgroup.procs"));
      for (pid_t process; left >> process;) ::kill(process, SIGKILL);
      ::usleep(10'000);
    }
  }

  bool made() const { return !folder_.empty(); }
  const std::string& reason() const { return reason_; }
  bool enter() const { return write_text(folder_ + "/cgroup.procs", "0"); }

  bool killed() const {
    std::istringstream words(read_text(folder_ + (version1_ ? "/memory.oom_control" : "/memory.events")));
    std::string key;
    for (int64_t value; words >> key >> value;)
      if (key == "oom_kill") return value > 0;
    return false;
  }

  std::optional<Bytes> peak() const {
    std::istringstream text(read_text(folder_ + (version1_ ? "/memory.max_usage_in_bytes" : "/memory.peak")));
    Bytes peak = 0;
    return text >> peak ? std::optional(peak) : std::nullopt;
  }

 private:
  bool make(const std::string& parent, Bytes limit) {
    static std::atomic<int> serial{0};
    if (!exists(parent)) return false;
    const std::string folder = parent + "/plimsoll-test-" + std::to_string(::getpid()) + "-" + std::to_string(++serial);
    if (::mkdir(folder.c_str(), 0755) != 0) {
      reason_ = "cannot make a group in " + parent + ": " + std::strerror(errno);
      return false;
    }
    version1_ = exists(folder + "/memory.limit_in_bytes");
    if (set_limit(folder, std::to_string(limit))) {
      folder_ = folder;
      return true;
    }
    reason_ = "cannot set a memory limit in " + folder;
    ::rmdir(folder.c_str());
    return false;
  }

  bool set_limit(const std::string& folder, const std::string& limit) const {
    if (!version1_)
      return write_text(folder + "/memory.max", limit) &&
             (!exists(folder + "/memory.swap.max") || write_text(folder + "/memory.swap.max", "0"));
    if (!write_text(folder + "/memory.limit_in_bytes", limit)) return false;
    // Memory and swap together limited to the memory alone: no swap. Kernels may lack that file.
    return write_text(folder + "/memory.memsw.limit_in_bytes", limit) || write_text(folder + "/memory.swappiness", "0");
  }

  std::string folder_;
  std::string reason_;
  bool version1_ = false;
};

}  // namespace

LimitedOutcome run_limited(const std::function<int()>& child, Bytes limit) {
  const Cgroup group(limit);
  if (!group.made()) return {std::nullopt, group.reason()};
  std::fflush(nullptr);
  const pid_t caller = ::getpid();
  const pid_t process = ::fork();
  if (process < 0) return {std::nullopt, std::string("cannot fork: ") + std::strerror(errno)};
  if (process == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != caller || !group.enter()) ::_exit(kNotEntered);
    int exit_code = 1;
    try {
      exit_code = child();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "limited child: %s\n", error.what());
    }
    std::fflush(nullptr);
    ::_exit(exit_code);
  }
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  LimitedRun run;
  if (WIFEXITED(status)) run.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) run.signal = WTERMSIG(status);
  if (run.exit_code == kNotEntered) return {std::nullopt, "the child cannot enter its control group"};
  run.oom_killed = group.killed();
  run.peak_bytes = group.peak();
  return {run, ""};
}

LimitedOutcome run_limited(const std::vector<std::string>& command, Bytes limit) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  return run_limited(
      [&] {
        ::execvp(words[0], words.data());
        return 127;
      },
      limit);
}

}  // namespace plimsoll::testing
