#include "data/prefetch.h"

#include <cstring>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "memory/small_thread.h"

namespace plimsoll::data {
namespace {

Bytes slot_bytes(std::span<const Bytes> row_bytes, int64_t batch) {
  Bytes bytes = 0;
  for (const Bytes row : row_bytes) bytes += round_up(batch * row, kAlignment);
  return bytes;
}

std::vector<Bytes> rows_of(const Batches& batches) {
  std::vector<Bytes> rows;
  for (int i = 0; i < batches.sources(); ++i) rows.push_back(batches.row_bytes(i));
  return rows;
}

}  // namespace

Bytes Prefetch::bytes_needed(std::span<const Bytes> row_bytes, int64_t batch, int slots) {
  if (slots < 1) throw Error(fmt::format("{} slots cannot hold a batch; give at least 1", slots), ErrorKind::Usage);
  return round_up(slots * slot_bytes(row_bytes, batch), memory::Arena::kPage) + memory::kSmallThreadBytes;
}

Bytes Prefetch::bytes_needed(const Batches& batches, int slots) {
  return bytes_needed(rows_of(batches), batches.batch(), slots);
}

Prefetch::Prefetch(Batches& batches, int slots, MemoryLine& line)
    : batches_(batches),
      held_(line.reserve(Tag::Data, bytes_needed(batches, slots))),
      arena_(slots * slot_bytes(rows_of(batches), batches.batch())),
      state_(batches.state()) {
  arena_.commit(arena_.maximum());
  held_.set_resident(arena_.committed());
  std::byte* place = arena_.data();
  ring_.resize(static_cast<size_t>(slots));
  for (Filled& filled : ring_)
    for (int i = 0; i < batches.sources(); ++i) {
      filled.slot.rows.push_back(place);
      place += round_up(batches.batch() * batches.row_bytes(i), kAlignment);
    }
  if (const int failure = memory::start_small_thread(&thread_, &Prefetch::run, this); failure != 0)
    throw Error(fmt::format("no thread for prefetching: {}", std::strerror(failure)), ErrorKind::DoesNotFit);
}

Prefetch::~Prefetch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  ::pthread_join(thread_, nullptr);
  // The batches continue where the caller is, not where the thread was.
  batches_.seek(state_);
}

void* Prefetch::run(void* self) {
  static_cast<Prefetch*>(self)->work();
  return nullptr;
}

void Prefetch::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] {
      return stop_ || (!paused_ && !over_ && filled_ < free_from_ + static_cast<int64_t>(ring_.size()));
    });
    if (stop_) return;
    Filled& target = ring_[slot_index(filled_)];
    reading_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      target.slot.samples = batches_.next(target.slot.rows);
      target.after = batches_.state();
    } catch (...) {
      error = std::current_exception();
      target.slot.samples = 0;
    }
    lock.lock();
    reading_ = false;
    error_ = error;
    over_ = target.slot.samples == 0;
    if (!over_) ++filled_;
    changed_.notify_all();
  }
}

const BatchSlot* Prefetch::next() {
  std::unique_lock lock(mutex_);
  free_from_ = handed_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return handed_ < filled_ || over_; });
  if (handed_ == filled_) {
    if (error_) std::rethrow_exception(error_);
    return nullptr;
  }
  const Filled& filled = ring_[slot_index(handed_++)];
  state_ = filled.after;
  return &filled.slot;
}

void Prefetch::seek(const BatchState& state) {
  std::unique_lock lock(mutex_);
  paused_ = true;
  changed_.wait(lock, [&] { return !reading_; });
  std::exception_ptr refused;
  try {
    batches_.seek(state);
    state_ = state;
  } catch (...) {
    refused = std::current_exception();
    batches_.seek(state_);
  }
  // Batches that were read ahead are dropped.
  free_from_ = handed_ = filled_;
  over_ = false;
  error_ = nullptr;
  paused_ = false;
  changed_.notify_all();
  if (refused) std::rethrow_exception(refused);
}

}  // namespace plimsoll::data
