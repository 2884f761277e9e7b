#include "run/thread_waits.h"

#include <fcntl.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/thread_pool.h"

namespace plimsoll::run {
namespace {

constexpr int64_t kBetweenLooks_ns = 50'000'000;

int64_t now_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// The second number of a thread's schedstat.
int64_t waited_by(int tasks, const char* thread) noexcept {
  char path[40];
  const size_t length = std::strlen(thread);
  if (length > 20) return 0;
  std::memcpy(path, thread, length);
  std::memcpy(path + length, "/schedstat", sizeof "/schedstat");
  const int file = ::openat(tasks, path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  char text[96];
  const ssize_t bytes = ::read(file, text, sizeof text);
  ::close(file);
  if (bytes <= 0) return -1;
  const char *const begin = text, *const end = begin + bytes;
  const char* const gap = std::find(begin, end, ' ');
  int64_t waited = 0;
  if (gap != end) std::from_chars(gap + 1, end, waited);
  return waited;
}

// Variables with which whoever started the program told libgomp how its threads wait.
bool is_told_how_to_wait() noexcept {
  return std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr;
}

// libgomp spins long before a thread sleeps (GOMP_SPINCOUNT, 300,000 times by default), but only a hundred times where
// it has more threads than processors. While this lives, a thread that sleeps has a pool of threads that sleep.
class SpareThreads {
 public:
  void start() noexcept {
    if (is_there_.load()) return;  // still ending
    const int enough = ::omp_get_num_procs() - ::omp_get_max_threads() + 2;
    count_.store(std::max(2, enough));
    is_wanted_.store(1);
    sigset_t all, before;
    ::sigfillset(&all);
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    ::pthread_attr_setstacksize(&attributes, kStackBytes);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    is_there_.store(::pthread_create(&thread, &attributes, run, this) == 0);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::pthread_attr_destroy(&attributes);
  }
  void end() noexcept {
    is_wanted_.store(0);
    is_wanted_.notify_all();
  }

 private:
  static constexpr size_t kStackBytes = size_t{128} * 1024;

  static void* run(void* given) {
    auto* const self = static_cast<SpareThreads*>(given);
    start_pool(self->count_.load());
    self->is_wanted_.wait(1);
    self->is_there_.store(false);
    return nullptr;
  }

  std::atomic<int> count_ = 2, is_wanted_ = 0;
  std::atomic<bool> is_there_ = false;
};

// One for the process, as libgomp is.
struct Watch {
  std::atomic<int64_t> next_look_ns = 0;
  std::atomic<bool> sleep_soon = false;
  std::mutex mutex;
  BusyJudge judge;
  SpareThreads spare;
};

Watch& watch() noexcept {
  static Watch one;
  return one;
}

}  // namespace

bool BusyJudge::update(int64_t waited_ns, int64_t now_ns) {
  if (waited_ns_ >= 0 && now_ns > at_ns_) {
    // Threads that have ended take their time with them, so the sum may fall.
    const auto waited = static_cast<double>(std::max<int64_t>(0, waited_ns - waited_ns_));
    const double share = waited / static_cast<double>(now_ns - at_ns_);
    is_busy_ = share > (is_busy_ ? kIdleBelow : kBusyAbove);
  }
  waited_ns_ = waited_ns;
  at_ns_ = now_ns;
  return is_busy_;
}

int64_t waited_for_processors_ns() noexcept {
  const int tasks = ::open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (tasks < 0) return -1;
  int64_t sum = -1;
  // readdir would allocate.
  struct Entry {
    uint64_t inode;
    int64_t next;
    uint16_t bytes;
    uint8_t type;
  };
  constexpr size_t kNameOffset = 19;
  alignas(8) char entries[2048];
  for (long got; (got = ::syscall(SYS_getdents64, tasks, entries, sizeof entries)) > 0;) {
    for (long at = 0; at < got;) {
      uint16_t bytes = 0;
      std::memcpy(&bytes, entries + at + offsetof(Entry, bytes), sizeof bytes);
      const char* const name = entries + at + kNameOffset;
      if (std::isdigit(static_cast<unsigned char>(name[0])) != 0)
        if (const int64_t waited = waited_by(tasks, name); waited >= 0) sum = std::max<int64_t>(0, sum) + waited;
      at += bytes;
    }
  }
  ::close(tasks);
  return sum;
}

void look_at_processors() noexcept {
  Watch& mine = watch();
  const int64_t now = now_ns();
  if (now < mine.next_look_ns.load(std::memory_order_relaxed)) return;
  const std::unique_lock lock(mine.mutex, std::try_to_lock);
  if (!lock) return;  // another looks
  mine.next_look_ns.store(now + kBetweenLooks_ns);
  if (::omp_get_max_threads() < 2) return;
  if (is_told_how_to_wait()) return mine.next_look_ns.store(INT64_MAX);
  const int64_t waited = waited_for_processors_ns();
  if (waited < 0) return mine.next_look_ns.store(INT64_MAX);
  const bool was_busy = mine.judge.is_busy(), is_busy = mine.judge.update(waited, now);
  if (is_busy && !was_busy) mine.spare.start();
  if (was_busy && !is_busy) mine.spare.end();
  mine.sleep_soon.store(is_busy);
}

bool threads_sleep_soon() noexcept { return watch().sleep_soon.load(); }

}  // namespace plimsoll::run
