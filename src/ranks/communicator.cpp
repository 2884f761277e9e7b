#include "ranks/communicator.h"

#include <bit>
#include <chrono>
#include <cstring>

#include <fmt/format.h>

namespace plimsoll::ranks {
namespace {

class Alone final : public Communicator {
 public:
  Alone() : Communicator(0, 1) {}
  void abort(const std::string& /*message*/, int /*exit_code*/) noexcept override {}

 protected:
  void transfer(int peer, const void* /*send*/, Bytes /*send_bytes*/, void* /*receive*/,
                Bytes /*receive_bytes*/) override {
    throw Error(fmt::format("there is no rank {}: this process trains alone", peer));
  }
};

class OnPaper final : public Communicator {
 public:
  explicit OnPaper(int size) : Communicator(0, size) {}
  void abort(const std::string& /*message*/, int /*exit_code*/) noexcept override {}

 protected:
  void transfer(int peer, const void* /*send*/, Bytes /*send_bytes*/, void* /*receive*/,
                Bytes /*receive_bytes*/) override {
    throw Error(fmt::format("rank {} was planned but not started", peer));
  }
};

}  // namespace

std::shared_ptr<Communicator> make_alone() { return std::make_shared<Alone>(); }

std::shared_ptr<Communicator> make_on_paper(int count) {
  if (count < 1) throw Error(fmt::format("{} ranks can't train; give 1 or more", count), ErrorKind::Usage);
  return std::make_shared<OnPaper>(count);
}

bool Communicator::exchange(int peer, const void* send, Bytes send_bytes, void* receive, Bytes receive_bytes) noexcept {
  if (failure_ != nullptr) return false;
  try {
    transfer(peer, send, send_bytes, receive, receive_bytes);
    sent_bytes_ += send_bytes;
  } catch (...) {
    failure_ = std::current_exception();
  }
  return failure_ == nullptr;
}

void Communicator::expect_good() const {
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

void Communicator::gather(std::span<const std::byte> mine, std::span<std::byte> all) {
  const auto begin = std::chrono::steady_clock::now();
  const size_t each = mine.size();
  if (all.size() != each * static_cast<size_t>(size_)) throw Error("gather: the memory is not that of all ranks");
  if (each == 0) return;
  const auto place = [&](int rank) { return all.data() + static_cast<size_t>(rank) * each; };
  const auto bytes = [&](int ranks) { return static_cast<Bytes>(each) * ranks; };
  std::memmove(place(rank_), mine.data(), each);
  if (std::has_single_bit(static_cast<unsigned>(size_))) {
    // Recursive doubling: with each exchange a rank has the parts of twice as many ranks.
    for (int distance = 1; distance < size_; distance *= 2) {
      const int first = rank_ & ~(distance - 1), peer = rank_ ^ distance, theirs = peer & ~(distance - 1);
      if (!exchange(peer, place(first), bytes(distance), place(theirs), bytes(distance))) break;
    }
  } else if (rank_ == 0) {
    for (int peer = 1; peer < size_; ++peer) exchange(peer, nullptr, 0, place(peer), bytes(1));
    for (int peer = 1; peer < size_; ++peer) exchange(peer, all.data(), bytes(size_), nullptr, 0);
  } else {
    exchange(0, mine.data(), bytes(1), nullptr, 0);
    exchange(0, nullptr, 0, all.data(), bytes(size_));
  }
  gathered_ns_ += std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
  expect_good();
}

std::vector<std::string> Communicator::gather_texts(const std::string& mine) {
  const uint64_t length = mine.size();
  std::vector<uint64_t> lengths(static_cast<size_t>(size_));
  gather(std::as_bytes(std::span(&length, 1)), std::as_writable_bytes(std::span(lengths)));
  size_t longest = 0;
  for (const uint64_t one : lengths) longest = std::max(longest, static_cast<size_t>(one));
  std::string padded = mine;
  padded.resize(longest);
  std::string all(longest * static_cast<size_t>(size_), '\0');
  gather(std::as_bytes(std::span(padded)), std::as_writable_bytes(std::span(all)));
  std::vector<std::string> texts;
  for (size_t i = 0; i < lengths.size(); ++i) texts.push_back(all.substr(i * longest, lengths[i]));
  return texts;
}

void Communicator::broadcast(std::span<std::byte> bytes) {
  // A binomial tree: a rank that has the bytes sends them on to ranks at half the distance, a quarter, and so on.
  const int low = rank_ & -rank_, all = static_cast<int>(std::bit_ceil(static_cast<unsigned>(size_)));
  const auto count = static_cast<Bytes>(bytes.size());
  if (rank_ > 0) exchange(rank_ - low, nullptr, 0, bytes.data(), count);
  for (int distance = (rank_ > 0 ? low : all) / 2; distance > 0; distance /= 2)
    if (rank_ + distance < size_) exchange(rank_ + distance, bytes.data(), count, nullptr, 0);
  expect_good();
}

void Communicator::meet() {
  const std::byte here{1};
  std::vector<std::byte> all(static_cast<size_t>(size_));
  gather({&here, 1}, all);
}

}  // namespace plimsoll::ranks
