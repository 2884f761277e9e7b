#include <plimsoll/memory_line.h>

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "base/thread_pool.h"
#include "memory/code_room.h"
#include "memory/default_line.h"
#include "memory/process.h"
#include "memory/trial_lines.h"

namespace plimsoll {

namespace {

thread_local bool tries_lines = false;

// Resident pages of files while steps run, most of them code of the program and its libraries: what one step and the
// work around it touch, since near the line pages that were touched before are dropped between steps
// (tests/laws/line.cpp, tests/laws/small_line.cpp). A training also evaluates, saves and writes logs.
std::atomic<Bytes> code_room = 13 * MiB / 2;
constexpr Bytes kTrainingCodeBytes = 12 * MiB;
// Of these, the bytes that are resident right after drop_code_pages. A host program that maps more keeps more resident.
constexpr Bytes kCodeThatStays = 4 * MiB;
// The pages of files that a step may add to those of the steps before it.
constexpr Bytes kCodeOfStep = 3 * MiB / 2;
// Private memory that is neither heap nor generated code: stacks, data of libraries; and small blocks taken by output,
// kernels of libraries and threads after planning.
constexpr Bytes kOtherPrivateBytes = 3 * MiB / 2;
// Resident bytes exceed counted ones by pages that the allocator can't return: by at most this and an eighth of the
// heap. A larger difference is memory that was taken without the allocator.
constexpr Bytes kDiffers = 4 * MiB;
// 1/kFragments of a heap is free space between blocks, after trimming.
constexpr Bytes kFragments = 16;

// Kernels of libraries need some hundred KiB of the stack of each thread, and the stacks of threads that OpenMP starts
// are as large as this limit.
void expect_stack() {
  constexpr rlim_t kLeast = MiB;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kLeast) return;
  throw Error(fmt::format("the stack is limited to {}, and the engine needs {}: raise the limit with ulimit -s 8192",
                          format_bytes(static_cast<Bytes>(limit.rlim_cur)), format_bytes(MiB)));
}

}  // namespace

namespace memory {

class Ledger {
 public:
  Ledger(Bytes limit, bool covers_process) : limit_(limit), covers_process_(covers_process) {
    if (limit <= 0)
      throw Error(fmt::format("a memory line must be greater than zero, not {}", limit), ErrorKind::Usage);
  }

  Bytes limit() const { return limit_; }
  bool covers_process() const { return covers_process_; }

  void take(Tag tag, Bytes bytes) {
    assert(bytes >= 0);
    const std::lock_guard lock(mutex_);
    if (bytes > free()) throw DoesNotFit(refusal(tag, bytes));
    add(tag, bytes);
  }

  void give_back(Tag tag, Bytes bytes) noexcept {
    const std::lock_guard lock(mutex_);
    used_by_tag_[static_cast<size_t>(tag)] -= bytes;
    used_ -= bytes;
    assert(used_by_tag_[static_cast<size_t>(tag)] >= 0);
  }

  // The line of a share also adds to its parent, which holds the same bytes.
  void add_resident(Bytes bytes) noexcept {
    {
      const std::lock_guard lock(mutex_);
      resident_ += bytes;
    }
    if (parent_) parent_->add_resident(bytes);
  }

  void measure_process(Bytes leaving) {
    if (!covers_process_) return;
    memory::trim_allocator();
    memory::drop_code_pages();
    const memory::ProcessMemory now = memory::measure_process_memory();
    const std::lock_guard lock(mutex_);
    hold_process(needed_for(now) - leaving / kProcessQuantum * kProcessQuantum);
    checked_peak_ = peak_resident_bytes();
  }

  void expect_training() {
    const std::lock_guard lock(mutex_);
    code_bytes_ = kTrainingCodeBytes;
  }

  void expect_no_growth() {
    if (!covers_process_) return;
    constexpr Bytes kLittle = MiB;
    const Bytes peak = memory::quick_peak_resident_bytes();
    const std::lock_guard lock(mutex_);
    if (peak > limit_ - kCodeOfStep && resident_bytes() > limit_ - kCodeOfStep) memory::drop_code_pages();
    if (peak <= checked_peak_ + kLittle) return;
    checked_peak_ = peak;
    memory::drop_code_pages();
    const Bytes known = process_bytes_, now = needed_for(memory::measure_process_memory());
    if (now <= known) return;
    hold_process(now);
    if (used_ - kLittle <= limit_) return;
    Refusal refused = refusal(Tag::Runtime, 0);
    refused.reason = fmt::format("the process holds {} that this line did not know of when its steps were planned",
                                 format_bytes(now - known));
    throw DoesNotFit(std::move(refused));
  }

  template <class Read>
  Bytes read(const Read& value) const {
    const std::lock_guard lock(mutex_);
    return value(*this);
  }

 private:
  friend class plimsoll::MemoryLine;

  Bytes free() const { return std::max<Bytes>(0, limit_ - used_); }

  void add(Tag tag, Bytes bytes) {
    Bytes& used = used_by_tag_[static_cast<size_t>(tag)];
    Bytes& peak = peak_by_tag_[static_cast<size_t>(tag)];
    used += bytes;
    peak = std::max(peak, used);
    used_ += bytes;
    peak_ = std::max(peak_, used_);
  }

  void hold_process(Bytes bytes) {
    add(Tag::Runtime, bytes - process_bytes_);
    process_bytes_ = bytes;
  }

  // Counted bytes, because measured pages differ a little from run to run, and plans must not. Measured pages where the
  // host program has taken memory without the allocator.
  Bytes needed_for(const memory::ProcessMemory& now) const {
    const Bytes heap = now.heap_bytes + now.heap_bytes / kFragments;
    const Bytes counted = heap + now.generated_code_bytes + kOtherPrivateBytes;
    const Bytes measured = now.private_bytes - resident_;
    const Bytes differs = kDiffers + now.heap_bytes / 8;
    const Bytes mapped = code_bytes_ + std::max<Bytes>(0, now.file_bytes - kCodeThatStays);
    return round_up(measured > counted + differs ? measured : counted, kProcessQuantum) + mapped;
  }

  Refusal refusal(Tag tag, Bytes bytes) const {
    Refusal refused;
    refused.line = limit_;
    refused.need = bytes > MemoryLine::kUnlimited - used_ ? MemoryLine::kUnlimited : used_ + bytes;
    // A share is no line that a user gives: how large it must be is no advice.
    if (parent_ == nullptr && refused.need < MemoryLine::kUnlimited - MiB)
      refused.smallest_line = round_line(refused.need);
    refused.reason = bytes > 0 ? fmt::format("{} asks for {}, {} are free", name_of(tag), format_exact_bytes(bytes),
                                             format_bytes(free()))
                               : "";
    for (size_t i = 0; i < used_by_tag_.size(); ++i)
      if (used_by_tag_[i] > 0) refused.holders.push_back({"held already", static_cast<Tag>(i), used_by_tag_[i]});
    std::ranges::stable_sort(refused.holders, [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
    return refused;
  }

  const Bytes limit_;
  const bool covers_process_;
  mutable std::mutex mutex_;
  std::mutex planning_;
  std::array<Bytes, kTagCount> used_by_tag_{}, peak_by_tag_{};
  std::vector<std::weak_ptr<std::function<std::string()>>> describers_;
  Bytes used_ = 0;
  Bytes peak_ = 0;
  Bytes resident_ = 0;       // of what is reserved
  Bytes process_bytes_ = 0;  // held for the process itself
  Bytes code_bytes_ = code_room;
  Bytes checked_peak_ = 0;  // the process's, when it was last measured
  std::shared_ptr<Ledger> parent_;
  Reservation held_by_parent_;
};

}  // namespace memory

Reservation::Reservation(std::shared_ptr<memory::Ledger> ledger, Tag tag, Bytes bytes)
    : ledger_(std::move(ledger)), tag_(tag), bytes_(bytes) {}

Reservation::Reservation(Reservation&& other) noexcept
    : ledger_(std::exchange(other.ledger_, nullptr)),
      tag_(other.tag_),
      bytes_(std::exchange(other.bytes_, 0)),
      resident_(std::exchange(other.resident_, 0)) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  release();
  ledger_ = std::exchange(other.ledger_, nullptr);
  tag_ = other.tag_;
  bytes_ = std::exchange(other.bytes_, 0);
  resident_ = std::exchange(other.resident_, 0);
  return *this;
}

void Reservation::resize(Bytes bytes) {
  assert(ledger_ && bytes >= 0);
  if (bytes > bytes_) ledger_->take(tag_, bytes - bytes_);
  if (bytes < bytes_) ledger_->give_back(tag_, bytes_ - bytes);
  bytes_ = bytes;
}

void Reservation::set_resident(Bytes bytes) noexcept {
  if (ledger_) ledger_->add_resident(bytes - resident_);
  resident_ = bytes;
}

void Reservation::release() noexcept {
  if (ledger_) {
    set_resident(0);
    ledger_->give_back(tag_, bytes_);
  }
  ledger_ = nullptr;
  bytes_ = 0;
}

MemoryLine::MemoryLine(Bytes limit) : ledger_(std::make_shared<memory::Ledger>(limit, false)) { expect_stack(); }

void memory::set_code_room(Bytes bytes) noexcept { code_room = bytes; }

memory::TrialLines::TrialLines() noexcept : before_(std::exchange(tries_lines, true)) {}
memory::TrialLines::~TrialLines() { tries_lines = before_; }

MemoryLine MemoryLine::process(std::string_view text) {
  memory::MemoryFacts facts = memory::gather_memory_facts();
  facts.plimsoll_memory = text;
  facts.asked_with = "the line of the process";
  return process(memory::default_line(facts).bytes);
}

MemoryLine MemoryLine::process(Bytes limit) {
  // A process has one line: two ledgers would each give the same memory away.
  static std::mutex mutex;
  static std::weak_ptr<memory::Ledger> only;
  const std::lock_guard lock(mutex);
  if (const std::shared_ptr<memory::Ledger> known = tries_lines ? nullptr : only.lock()) {
    if (known->limit() != limit)
      throw Error(
          fmt::format("the process has a line of {} already, and is asked for one of {}: it has one line, which "
                      "all its sessions, datasets and models share",
                      format_exact_bytes(known->limit()), format_exact_bytes(limit)),
          ErrorKind::Usage);
    return MemoryLine(known);
  }
  expect_stack();
  memory::tame_allocator();
  start_pool();  // before the process is measured
  MemoryLine line(std::make_shared<memory::Ledger>(limit, true));
  line.measure_process();
  if (!tries_lines) only = line.ledger_;
  return line;
}

Reservation MemoryLine::reserve(Tag tag, Bytes bytes) {
  ledger_->take(tag, bytes);
  return {ledger_, tag, bytes};
}

MemoryLine MemoryLine::share(Tag tag, Bytes bytes) {
  auto child = std::make_shared<memory::Ledger>(bytes, false);
  child->held_by_parent_ = reserve(tag, bytes);
  child->parent_ = ledger_;
  return MemoryLine(std::move(child));
}

Bytes MemoryLine::limit() const { return ledger_->limit(); }
bool MemoryLine::covers_process() const { return ledger_->covers_process(); }
Bytes MemoryLine::used() const {
  return ledger_->read([](const memory::Ledger& books) { return books.used_; });
}
Bytes MemoryLine::used(Tag tag) const {
  return ledger_->read([tag](const memory::Ledger& books) { return books.used_by_tag_[static_cast<size_t>(tag)]; });
}
Bytes MemoryLine::free() const {
  return ledger_->read([](const memory::Ledger& books) { return books.free(); });
}
Bytes MemoryLine::peak() const {
  return ledger_->read([](const memory::Ledger& books) { return books.peak_; });
}
Bytes MemoryLine::process_bytes() const {
  return ledger_->read([](const memory::Ledger& books) { return books.process_bytes_; });
}
std::string MemoryLine::report() const {
  std::string text;
  std::vector<std::shared_ptr<std::function<std::string()>>> describers;
  {
    const std::lock_guard lock(ledger_->mutex_);
    const bool has_limit = ledger_->limit_ != kUnlimited;
    text = fmt::format("line {}: {} held, {} at most so far\n",
                       has_limit ? format_bytes(ledger_->limit_) : "without a limit", format_bytes(ledger_->used_),
                       format_bytes(ledger_->peak_));
    for (size_t i = 0; i < kTagCount; ++i)
      if (ledger_->peak_by_tag_[i] > 0)
        text += fmt::format("  {:<12} {:>10}  peak {:>10}\n", name_of(static_cast<Tag>(i)),
                            format_bytes(ledger_->used_by_tag_[i]), format_bytes(ledger_->peak_by_tag_[i]));
    for (const auto& describer : ledger_->describers_)
      if (auto alive = describer.lock()) describers.push_back(std::move(alive));
  }
  for (const auto& describer : describers) text += (*describer)();
  return text;
}

std::shared_ptr<void> MemoryLine::describe_with(std::function<std::string()> text) {
  auto describer = std::make_shared<std::function<std::string()>>(std::move(text));
  const std::lock_guard lock(ledger_->mutex_);
  std::erase_if(ledger_->describers_, [](const auto& other) { return other.expired(); });
  ledger_->describers_.push_back(describer);
  return describer;
}

void MemoryLine::measure_process(Bytes leaving) { ledger_->measure_process(leaving); }
void MemoryLine::expect_training() { ledger_->expect_training(); }
void MemoryLine::expect_no_growth() { ledger_->expect_no_growth(); }
std::unique_lock<std::mutex> MemoryLine::take_planning_turn() {
  return covers_process() ? std::unique_lock(ledger_->planning_) : std::unique_lock<std::mutex>();
}

}  // namespace plimsoll
