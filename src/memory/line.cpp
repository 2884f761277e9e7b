#include "memory/line.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace plimsoll {

Reservation::Reservation(Reservation&& other) noexcept
    : line_(std::exchange(other.line_, nullptr)), tag_(other.tag_), bytes_(std::exchange(other.bytes_, 0)) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  release();
  line_ = std::exchange(other.line_, nullptr);
  tag_ = other.tag_;
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void Reservation::resize(Bytes bytes) {
  assert(line_ && bytes >= 0);
  if (bytes > bytes_) line_->take(tag_, bytes - bytes_);
  if (bytes < bytes_) line_->give_back(tag_, bytes_ - bytes);
  bytes_ = bytes;
}

void Reservation::release() noexcept {
  if (line_) line_->give_back(tag_, bytes_);
  line_ = nullptr;
  bytes_ = 0;
}

MemoryLine::MemoryLine(Bytes limit) : limit_(limit) {
  if (limit <= 0) throw Error(fmt::format("a memory line must be greater than zero, not {}", limit), ErrorKind::Usage);
}

MemoryLine::~MemoryLine() { assert(used_ == 0 && "a reservation outlives its memory line"); }

Reservation MemoryLine::reserve(Tag tag, Bytes bytes) {
  take(tag, bytes);
  return {this, tag, bytes};
}

void MemoryLine::take(Tag tag, Bytes bytes) {
  assert(bytes >= 0);
  const std::lock_guard lock(mutex_);
  if (bytes > limit_ - used_) throw Error(refusal(tag, bytes), ErrorKind::DoesNotFit);
  used_by_tag_[static_cast<size_t>(tag)] += bytes;
  used_ += bytes;
  peak_ = std::max(peak_, used_);
}

void MemoryLine::give_back(Tag tag, Bytes bytes) noexcept {
  const std::lock_guard lock(mutex_);
  used_by_tag_[static_cast<size_t>(tag)] -= bytes;
  used_ -= bytes;
  assert(used_by_tag_[static_cast<size_t>(tag)] >= 0);
}

std::string MemoryLine::refusal(Tag tag, Bytes bytes) const {
  std::string holders;
  for (size_t i = 0; i < used_by_tag_.size(); ++i)
    if (used_by_tag_[i] > 0)
      holders += fmt::format("{}{} {}", holders.empty() ? "" : ", ", name_of(Tag(i)), format_bytes(used_by_tag_[i]));
  return fmt::format("does not fit: {} asks for {}, {} of {} are free (used: {}); give a line of at least {}",
                     name_of(tag), format_exact_bytes(bytes), format_bytes(limit_ - used_), format_exact_bytes(limit_),
                     holders.empty() ? "nothing" : holders,
                     bytes > kUnlimited - used_ ? "more than can be counted" : format_exact_bytes(used_ + bytes));
}

Bytes MemoryLine::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

Bytes MemoryLine::used(Tag tag) const {
  const std::lock_guard lock(mutex_);
  return used_by_tag_[static_cast<size_t>(tag)];
}

Bytes MemoryLine::free() const {
  const std::lock_guard lock(mutex_);
  return limit_ - used_;
}

Bytes MemoryLine::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

}  // namespace plimsoll
