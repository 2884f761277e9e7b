// The ledger of one budget: every byte held against it has a holder and a tag.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <plimsoll/error.h>
#include <plimsoll/types.h>

namespace plimsoll {

namespace memory {
class Ledger;  // counts what is held, by tag
}

Bytes resident_bytes();       // of this process now (VmRSS)
Bytes peak_resident_bytes();  // the most it ever had (VmHWM)

// Bytes of a process are counted in steps of this size: the count differs by a few KiB from run to run.
constexpr Bytes kProcessQuantum = MiB / 2;

// Bytes held against a line, given back when it leaves scope. It keeps the ledger of its line alive.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { release(); }

  Tag tag() const { return tag_; }
  Bytes bytes() const { return bytes_; }
  void resize(Bytes bytes);  // throws like reserve, and then holds what it held before
  // Declares resident bytes, so they are not counted twice: the process measurably holds them already.
  void set_resident(Bytes bytes) noexcept;
  void release() noexcept;

 private:
  friend class MemoryLine;
  Reservation(std::shared_ptr<memory::Ledger> ledger, Tag tag, Bytes bytes);

  std::shared_ptr<memory::Ledger> ledger_;
  Tag tag_ = Tag::Runtime;
  Bytes bytes_ = 0;
  Bytes resident_ = 0;
};

// Safe to use from several threads. Only counts: holders take the memory themselves. A copy is the same line.
class MemoryLine {
 public:
  static constexpr Bytes kUnlimited = std::numeric_limits<Bytes>::max();

  // Covers what the engine takes for tensors: arenas, input buffers, staging. The process around them (its code, its
  // heap with graphs and plans, the host program) is not covered: see process().
  explicit MemoryLine(Bytes limit = kUnlimited);

  // Covers the whole process: what it holds now, what it takes later, and the engine. Configures the allocator and the
  // thread pool. Call it once, before threads are started. The text is bytes, "512MiB", or "80%" of what the machine
  // and its limits allow.
  static MemoryLine process(std::string_view text);
  static MemoryLine process(Bytes limit);

  // Throws DoesNotFit that names the tag, the bytes asked for, what is used by whom, and the limit.
  [[nodiscard]] Reservation reserve(Tag tag, Bytes bytes);
  // A line over so many bytes of this one, which stay held here until the share and all its reservations are gone.
  MemoryLine share(Tag tag, Bytes bytes);

  friend bool operator==(const MemoryLine& a, const MemoryLine& b) { return a.ledger_ == b.ledger_; }  // the same line

  Bytes limit() const;
  Bytes used() const;
  Bytes used(Tag tag) const;
  Bytes free() const;
  Bytes peak() const;  // the most that was ever used at once
  bool covers_process() const;
  // Current and peak bytes by tag, then texts of describe_with: the largest eager values with operator, shape, age and
  // the place of the program where they were made.
  std::string report() const;
  // Adds to the report for as long as the returned handle lives. Called with no lock held.
  [[nodiscard]] std::shared_ptr<void> describe_with(std::function<std::string()> text);

  // Does nothing unless the line covers the process. Measures what the process holds beside resident reservations, and
  // holds it under Tag::Runtime, less `leaving` bytes that will be freed before reserved memory is taken. The sum may
  // then exceed the line: free() is 0 and the next plan is refused.
  void measure_process(Bytes leaving = 0);
  Bytes process_bytes() const;  // held by measure_process
  // From now on measure_process adds room for the code of a training: more of the program runs than for inference.
  void expect_training();
  // Cheap. Throws DoesNotFit when the process has grown past the line since it was last measured: bytes that nobody
  // reserved, so the host program's.
  void expect_no_growth();

  // Planning takes memory and frees it afterwards, so on a line that covers the process one session plans at a time.
  [[nodiscard]] std::unique_lock<std::mutex> take_planning_turn();

 private:
  explicit MemoryLine(std::shared_ptr<memory::Ledger> ledger) : ledger_(std::move(ledger)) {}
  std::shared_ptr<memory::Ledger> ledger_;
};

}  // namespace plimsoll
