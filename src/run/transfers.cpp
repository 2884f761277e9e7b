#include "run/transfers.h"

#include <cassert>
#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::run {

Transfers::Transfers(memory::ScratchFile& file) : file_(file) {
  if (const int failure =
          memory::start_small_thread(&thread_, &Transfers::run, this, "a transfer to or from the scratch file");
      failure != 0)
    throw Error(fmt::format("no thread for the scratch file: {}", std::strerror(failure)), ErrorKind::DoesNotFit);
}

Transfers::~Transfers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  more_.notify_one();
  ::pthread_join(thread_, nullptr);
}

int64_t Transfers::start(const Request& request) noexcept {
  wait(started_ + 1 - kRequests);
  {
    const std::lock_guard lock(mutex_);
    slot(started_ + 1) = request;
    ++started_;
  }
  more_.notify_one();
  return started_;
}

void Transfers::wait_longer(int64_t ticket) noexcept {
  assert(ticket <= started_);
  const auto start = std::chrono::steady_clock::now();
  {
    std::unique_lock lock(mutex_);
    advanced_.wait(lock, [&] { return done_.load(std::memory_order_relaxed) >= ticket; });
  }
  waited_ns_ += std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
}

void* Transfers::run(void* self) {
  static_cast<Transfers*>(self)->work();
  return nullptr;
}

void Transfers::work() {
  std::unique_lock lock(mutex_);
  for (int64_t ticket = 1;; ++ticket) {
    more_.wait(lock, [&] { return stop_ || ticket <= started_; });
    if (stop_) return;
    const Request request = slot(ticket);
    lock.unlock();
    serve(request);
    lock.lock();
    done_.store(ticket, std::memory_order_release);
    advanced_.notify_one();
  }
}

void Transfers::serve(const Request& request) noexcept {
  if (failed()) return;
  try {
    if (request.into != nullptr)
      file_.read(request.at, request.into, request.bytes);
    else
      file_.write(request.at, request.from, request.bytes);
  } catch (...) {
    error_ = std::current_exception();
    failed_.store(true, std::memory_order_release);
  }
}

}  // namespace plimsoll::run
