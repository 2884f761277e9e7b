#include "input/workers.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "memory/small_thread.h"

namespace plimsoll::input {
namespace {

// Threads of the data yield to those that compute. On Linux the nice value is one of the thread.
constexpr int kNice = 5;

}  // namespace

Workers::Workers(int count, MemoryLine& line) : held_(line.reserve(Tag::Data, count * memory::kSmallThreadBytes)) {}

void Workers::start(std::function<void()> work) {
  const Bytes needed = (count() + 1) * memory::kSmallThreadBytes;
  if (needed > held_.bytes()) held_.resize(needed);
  Thread& thread = threads_.emplace_back(Thread{.work = std::move(work)});
  const int failure = memory::start_small_thread(&thread.id, &Workers::run, &thread,
                                                 "a function of the input (map, filter, a generator)");
  if (failure == 0) return;
  threads_.pop_back();
  throw Error(fmt::format("no thread for the input: {}; ask for fewer threads", std::strerror(failure)),
              ErrorKind::DoesNotFit);
}

void Workers::join() {
  for (const Thread& thread : threads_) ::pthread_join(thread.id, nullptr);
  threads_.clear();
}

void* Workers::run(void* thread) {
  ::setpriority(PRIO_PROCESS, 0, kNice);
  static_cast<Thread*>(thread)->work();
  return nullptr;
}

int most_threads() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

}  // namespace plimsoll::input
