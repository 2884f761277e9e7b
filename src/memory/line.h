// The ledger of one budget: every byte held against it has a holder and a tag.
#pragma once

#include <array>
#include <limits>
#include <mutex>
#include <string>

#include "base/bytes.h"
#include "base/tag.h"

namespace plimsoll {

class MemoryLine;

// Bytes held against a line, given back when it leaves scope. The line must outlive it.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { release(); }

  Tag tag() const { return tag_; }
  Bytes bytes() const { return bytes_; }
  void resize(Bytes bytes);  // throws like reserve, and then holds what it held before
  void release() noexcept;

 private:
  friend class MemoryLine;
  Reservation(MemoryLine* line, Tag tag, Bytes bytes) : line_(line), tag_(tag), bytes_(bytes) {}

  MemoryLine* line_ = nullptr;
  Tag tag_ = Tag::Runtime;
  Bytes bytes_ = 0;
};

// Safe to use from several threads. Keeps books only: holders take the memory themselves.
class MemoryLine {
 public:
  static constexpr Bytes kUnlimited = std::numeric_limits<Bytes>::max();

  explicit MemoryLine(Bytes limit = kUnlimited);
  MemoryLine(const MemoryLine&) = delete;
  MemoryLine& operator=(const MemoryLine&) = delete;
  ~MemoryLine();

  // Throws Error(DoesNotFit) that names the tag, the bytes asked for, what is used by whom, and the limit.
  [[nodiscard]] Reservation reserve(Tag tag, Bytes bytes);

  Bytes limit() const { return limit_; }
  Bytes used() const;
  Bytes used(Tag tag) const;
  Bytes free() const;
  Bytes peak() const;  // the most that was ever used at once

 private:
  friend class Reservation;
  void take(Tag tag, Bytes bytes);
  void give_back(Tag tag, Bytes bytes) noexcept;
  std::string refusal(Tag tag, Bytes bytes) const;

  const Bytes limit_;
  mutable std::mutex mutex_;
  std::array<Bytes, kTagCount> used_by_tag_{};
  Bytes used_ = 0;
  Bytes peak_ = 0;
};

}  // namespace plimsoll
