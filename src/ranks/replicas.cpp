// Ranks that are threads of one process: a mailbox for each pair, read straight from the sender's memory.
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "ranks/communicator.h"

namespace plimsoll::ranks {
namespace {

struct Letter {
  const void* data = nullptr;
  Bytes bytes = 0;
  bool is_posted = false;
};

struct Office {
  Office(int count, std::chrono::milliseconds limit)
      : ranks(count), timeout(limit), letters(static_cast<size_t>(count) * static_cast<size_t>(count)) {}
  Letter& letter(int from, int to) {
    return letters[static_cast<size_t>(from) * static_cast<size_t>(ranks) + static_cast<size_t>(to)];
  }

  const int ranks;
  const std::chrono::milliseconds timeout;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Letter> letters;
  std::optional<Error> failure;  // of the rank that ended all
};

class Replica final : public Communicator {
 public:
  const char* noun() const noexcept override { return "replica"; }
  Replica(std::shared_ptr<Office> office, int rank) : Communicator(rank, office->ranks), office_(std::move(office)) {}

  void abort(const std::string& message, int exit_code) noexcept override {
    const std::lock_guard lock(office_->mutex);
    if (!office_->failure)
      office_->failure.emplace(fmt::format("rank {}: {}", rank(), message), static_cast<ErrorKind>(exit_code));
    office_->changed.notify_all();
  }

 protected:
  void transfer(int peer, const void* send, Bytes send_bytes, void* receive, Bytes receive_bytes) override {
    std::unique_lock lock(office_->mutex);
    Letter& out = office_->letter(rank(), peer);
    if (send_bytes > 0) {
      out = {send, send_bytes, true};
      office_->changed.notify_all();
    }
    if (receive_bytes > 0) {
      Letter& in = office_->letter(peer, rank());
      wait(lock, peer, [&] { return in.is_posted; });
      if (in.bytes != receive_bytes)
        throw Error(fmt::format("rank {} sent {} bytes where rank {} expects {}: their plans differ", peer, in.bytes,
                                rank(), receive_bytes));
      // The sender waits until it is told that its memory was read.
      lock.unlock();
      std::memcpy(receive, in.data, static_cast<size_t>(receive_bytes));
      lock.lock();
      in.is_posted = false;
      office_->changed.notify_all();
    }
    if (send_bytes > 0) wait(lock, peer, [&] { return !out.is_posted; });
  }

 private:
  template <class Condition>
  void wait(std::unique_lock<std::mutex>& lock, int peer, const Condition& condition) {
    const bool came =
        office_->changed.wait_for(lock, office_->timeout, [&] { return condition() || office_->failure; });
    if (office_->failure) throw Error(*office_->failure);
    if (!came)
      throw Error(fmt::format("rank {} has not answered rank {} for {} s", peer, rank(),
                              std::chrono::duration<double>(office_->timeout).count()),
                  ErrorKind::RankLost);
  }

  const std::shared_ptr<Office> office_;
};

}  // namespace

std::vector<std::shared_ptr<Communicator>> make_replicas(int count, std::chrono::milliseconds timeout) {
  if (count < 1) throw Error(fmt::format("{} replicas can't train; give 1 or more", count), ErrorKind::Usage);
  const auto office = std::make_shared<Office>(count, timeout);
  std::vector<std::shared_ptr<Communicator>> all;
  for (int rank = 0; rank < count; ++rank) all.push_back(std::make_shared<Replica>(office, rank));
  return all;
}

}  // namespace plimsoll::ranks
