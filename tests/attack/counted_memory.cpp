#include "attack/counted_memory.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

constexpr plimsoll::Bytes kMost = 2 * plimsoll::GiB;

std::atomic<plimsoll::Bytes> now{0}, peak{0};

void* take(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  const plimsoll::Bytes all = now += static_cast<plimsoll::Bytes>(::malloc_usable_size(block));
  plimsoll::Bytes before = peak.load();
  while (all > before && !peak.compare_exchange_weak(before, all)) {
  }
  return block;
}

void give(void* block) {
  if (block == nullptr) return;
  now -= static_cast<plimsoll::Bytes>(::malloc_usable_size(block));
  std::free(block);
}

// A size from a damaged file must not bring the machine down.
void expect_possible(std::size_t bytes) {
  if (static_cast<plimsoll::Bytes>(bytes) > kMost || now.load() > kMost) throw std::bad_alloc();
}

}  // namespace

namespace plimsoll::testing {

Bytes allocated_bytes() { return now.load(); }
Bytes peak_allocated_bytes() { return peak.load(); }
void reset_peak_allocated() { peak = now.load(); }

}  // namespace plimsoll::testing

void* operator new(std::size_t bytes) {
  expect_possible(bytes);
  return take(std::malloc(bytes == 0 ? 1 : bytes));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  expect_possible(bytes);
  const auto align = static_cast<std::size_t>(alignment);
  return take(std::aligned_alloc(align, (bytes + align - 1) / align * align));
}
// The other forms too: a sanitizer has its own, whose blocks can't be given back here.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void* operator new[](std::size_t bytes, std::align_val_t alignment) { return operator new(bytes, alignment); }
void operator delete(void* block) noexcept { give(block); }
void operator delete(void* block, std::size_t) noexcept { give(block); }
void operator delete(void* block, std::align_val_t) noexcept { give(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { give(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { give(block); }
void operator delete[](void* block) noexcept { give(block); }
void operator delete[](void* block, std::size_t) noexcept { give(block); }
void operator delete[](void* block, std::align_val_t) noexcept { give(block); }
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept { give(block); }
