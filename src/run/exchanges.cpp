#include "run/exchanges.h"

#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::run {
namespace {

int64_t ns_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

Exchanges::Exchanges() {
  static_assert(kRequests * sizeof(Request) <= 64 * KiB);
  if (const int failure = memory::start_small_thread(&thread_, &Exchanges::run, this, "an exchange with other ranks");
      failure != 0)
    throw Error(fmt::format("no thread for messages to other ranks: {}", std::strerror(failure)),
                ErrorKind::DoesNotFit);
}

Exchanges::~Exchanges() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  more_.notify_one();
  ::pthread_join(thread_, nullptr);
}

int64_t Exchanges::start(kernels::Kernel* kernel, const kernels::Args& args) noexcept {
  wait(started_ + 1 - kRequests);
  {
    const std::lock_guard lock(mutex_);
    slot(started_ + 1) = {kernel, args};
    ++started_;
  }
  more_.notify_one();
  return started_;
}

void Exchanges::wait_longer(int64_t ticket) noexcept {
  const auto begin = std::chrono::steady_clock::now();
  {
    std::unique_lock lock(mutex_);
    advanced_.wait(lock, [&] { return done_.load(std::memory_order_relaxed) >= ticket; });
  }
  waited_ns_ += ns_since(begin);
}

void* Exchanges::run(void* self) {
  static_cast<Exchanges*>(self)->work();
  return nullptr;
}

void Exchanges::work() {
  std::unique_lock lock(mutex_);
  for (int64_t ticket = 1;; ++ticket) {
    more_.wait(lock, [&] { return stop_ || ticket <= started_; });
    if (stop_) return;
    const Request request = slot(ticket);
    lock.unlock();
    const auto begin = std::chrono::steady_clock::now();
    request.kernel->run(request.args);
    busy_ns_.fetch_add(ns_since(begin), std::memory_order_relaxed);
    lock.lock();
    done_.store(ticket, std::memory_order_release);
    advanced_.notify_one();
  }
}

}  // namespace plimsoll::run
