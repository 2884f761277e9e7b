// An iteration under way, one object for each stage: elements are pulled into rows that the consumer gives.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "input/rows.h"

namespace plimsoll::input {

// What a stage has done so far; several threads add to it.
struct Meter {
  std::atomic<int64_t> elements = 0;
  std::atomic<int64_t> busy_ns = 0;
  std::atomic<int64_t> waiting_ns = 0;
  std::atomic<int64_t> skipped = 0;
  std::atomic<int64_t> bytes = 0;
  std::atomic<int> threads = 0;

  void count_skipped(const char* why);
  std::string last_skipped() const;

 private:
  mutable std::mutex mutex_;
  std::string last_skipped_;
};

// Adds the time of its scope to a meter, less that of scopes within it on the same thread: those are other stages, or
// the same stage waiting.
class Stopwatch {
 public:
  explicit Stopwatch(std::atomic<int64_t>& counter);
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch();

 private:
  std::atomic<int64_t>& counter_;
  Stopwatch* const outer_;
  const std::chrono::steady_clock::time_point start_;
  int64_t inner_ns_ = 0;
};

// Elements by their number, from several threads at once. Reading goes past Stream::pull, so the reader meters it.
class Indexed {
 public:
  virtual ~Indexed() = default;
  virtual int64_t count() const = 0;
  // Elements first .. first + rows.count() - 1.
  virtual void read(int64_t first, const Rows& rows) const = 0;
  // Elements of these numbers, as many as there are rows.
  virtual void gather(std::span<const int64_t> numbers, const Rows& rows) const;
};

// For one thread at a time. Starts at element 0 of epoch 0.
class Stream {
 public:
  explicit Stream(Meter& meter) : meter_(meter) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  // Fills rows from the front and returns how many: at least one, maybe fewer than asked; 0 at the end.
  // An Error belongs to the element that would have come next: the next pull goes on after it.
  int64_t pull(const Rows& rows);
  // Pulls until the rows are full or the end is reached.
  int64_t pull_all(const Rows& rows);
  // Passes over elements, without making them where it can; returns fewer than `count` only at the end. `scratch` has
  // room for one element.
  virtual int64_t skip(int64_t count, const Rows& scratch);
  // Back to the first element, of that epoch.
  virtual void rewind(uint64_t epoch) = 0;

  // Itself by number, or null when it has no random access.
  virtual const Indexed* indexed() const { return nullptr; }
  // The next element in memory of the stream's own, until the next call; no row at the end. Only for stages whose
  // recipe says that they lend.
  virtual Rows lend() { return {nullptr, 0, 0}; }
  // AUTOTUNE: one more thread or slot, if there is room. False: nothing was added.
  virtual bool grow() { return false; }

  Meter& meter() const { return meter_; }

 protected:
  virtual int64_t fill(const Rows& rows) = 0;

 private:
  Meter& meter_;
};

// A stream with random access.
class IndexedStream : public Stream, public Indexed {
 public:
  using Stream::Stream;
  int64_t skip(int64_t count, const Rows& scratch) override;
  void rewind(uint64_t epoch) override;
  const Indexed* indexed() const override { return this; }

 protected:
  int64_t fill(const Rows& rows) override;

 private:
  int64_t position_ = 0;
};

// A stream with random access over another one.
class IndexedOver : public IndexedStream {
 public:
  IndexedOver(Meter& meter, std::unique_ptr<Stream> input)
      : IndexedStream(meter), input_(std::move(input)), from_(*input_->indexed()) {}
  void rewind(uint64_t epoch) override {
    IndexedStream::rewind(epoch);
    input_->rewind(epoch);
  }

 protected:
  const std::unique_ptr<Stream> input_;
  const Indexed& from_;
};

}  // namespace plimsoll::input
