#include "memory/arena.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "memory/process.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace plimsoll::memory {
namespace {

constexpr Bytes kHugePage = 2 * MiB;
constexpr Bytes kSmallestForHugePages = 4 * MiB;

[[noreturn]] void refuse(Bytes bytes, const std::string& why) {
  Refusal refusal;
  refusal.need = refusal.line = bytes;
  refusal.reason = why;
  throw DoesNotFit(
      refusal, fmt::format("does not fit: the machine cannot give {}: {}; give a smaller line, or end other programs",
                           format_exact_bytes(bytes), why));
}

// 0, or the reason as an errno.
int touch(std::byte* from, Bytes bytes) {
  while (::madvise(from, static_cast<size_t>(bytes), MADV_POPULATE_WRITE) != 0) {
    if (errno == EAGAIN || errno == EINTR) continue;
    if (errno != EINVAL) return errno == EFAULT || errno == EHWPOISON ? ENOMEM : errno;
    // A kernel before 5.14: write to each page; memory that runs out is then a signal.
    for (Bytes at = 0; at < bytes; at += Arena::kPage) *reinterpret_cast<volatile std::byte*>(from + at) = std::byte{0};
    break;
  }
  return 0;
}

// A large arena is touched by all threads: clearing pages dominates the time before the first step, and takes several
// times as long where the host of a virtual machine must allocate them first.
int touch_together(std::byte* from, Bytes bytes) {
  constexpr Bytes kStretch = 32 * MiB, kMuch = 256 * MiB;  // multiples of huge pages
  int failure = 0;
#pragma omp parallel for schedule(dynamic) reduction(max : failure) if (bytes >= kMuch)
  for (Bytes at = 0; at < bytes; at += kStretch)
    failure = std::max(failure, touch(from + at, std::min(kStretch, bytes - at)));
  return failure;
}

}  // namespace

Arena::Arena(Bytes maximum) : maximum_(round_up(maximum, kPage)) {
  assert(maximum >= 0);
  if (maximum_ == 0) return;
  const bool huge = maximum_ >= kSmallestForHugePages;
  mapping_bytes_ = maximum_ + (huge ? kHugePage : 0);
  void* const mapping = ::mmap(nullptr, static_cast<size_t>(mapping_bytes_), PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) refuse(maximum_, fmt::format("no address space ({})", std::strerror(errno)));
  mapping_ = static_cast<std::byte*>(mapping);
  const auto address = reinterpret_cast<uintptr_t>(mapping);
  data_ = mapping_ + (huge ? (kHugePage - address % kHugePage) % kHugePage : 0);
}

Arena::Arena(Arena&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(std::exchange(other.mapping_bytes_, 0)),
      data_(std::exchange(other.data_, nullptr)),
      committed_(std::exchange(other.committed_, 0)),
      maximum_(std::exchange(other.maximum_, 0)) {}

Arena::~Arena() {
  if (mapping_) ::munmap(mapping_, static_cast<size_t>(mapping_bytes_));
}

void Arena::commit(Bytes bytes) {
  bytes = round_up(bytes, kPage);
  if (bytes <= committed_) return;
  assert(bytes <= maximum_);
  std::byte* const from = data_ + committed_;
  const Bytes more = bytes - committed_;
  // A full control group kills the process instead of answering ENOMEM, so available memory is checked first.
  if (const Bytes available = available_memory_bytes(); more > available)
    refuse(more, fmt::format("{} are available", format_bytes(available)));
  int failure = 0;
  if (::mprotect(from, static_cast<size_t>(more), PROT_READ | PROT_WRITE) != 0) {
    failure = errno;
  } else {
    // A huge page never reaches past the writable part: behind it the protection, and so the kernel's area, differs.
    if (maximum_ >= kSmallestForHugePages) ::madvise(data_, static_cast<size_t>(bytes), MADV_HUGEPAGE);
    failure = touch_together(from, more);
  }
  if (failure != 0) {
    ::madvise(from, static_cast<size_t>(more), MADV_DONTNEED);
    ::mprotect(from, static_cast<size_t>(more), PROT_NONE);
    refuse(more, std::strerror(failure));
  }
  committed_ = bytes;
}

void Arena::release() noexcept {
  if (committed_ == 0) return;
  // Mapping anew, unlike dropping the pages, also ends the kernel's accounting of the range.
  static_cast<void>(::mmap(data_, static_cast<size_t>(committed_), PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0));
  committed_ = 0;
}

Bytes machine_memory_bytes() {
  struct sysinfo facts {};
  if (::sysinfo(&facts) != 0) throw Error(fmt::format("the size of memory can't be read: {}", std::strerror(errno)));
  return round_up(static_cast<Bytes>((facts.totalram + facts.totalswap) * facts.mem_unit), Arena::kPage);
}

}  // namespace plimsoll::memory
