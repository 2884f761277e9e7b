#include "eager/memory_pool.h"

#include <bit>
#include <utility>

#include <sys/mman.h>

#include <plimsoll/error.h>

namespace plimsoll::eager {
namespace {

constexpr Bytes kPageBytes = 4 * KiB;

// Pages are touched at once, so that missing memory shows here and not in a kernel.
std::byte* map_pages(Bytes bytes) {
  void* const pages = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  return pages == MAP_FAILED ? nullptr : static_cast<std::byte*>(pages);
}

}  // namespace

MemoryPool::~MemoryPool() {
  for (auto& [address, large] : used_) unmap(std::move(large));
  for (auto& [bytes, large] : kept_) unmap(std::move(large));
  for (Large& slab : slabs_) unmap(std::move(slab));
}

void MemoryPool::unmap(Large large) noexcept { munmap(large.block.data, static_cast<size_t>(large.block.bytes)); }

// 64, 128, ... 32 KiB.
size_t MemoryPool::class_of(Bytes bytes) {
  return static_cast<size_t>(std::bit_width(static_cast<uint64_t>(std::max<Bytes>(bytes, kAlignment) - 1))) -
         static_cast<size_t>(std::countr_zero(static_cast<uint64_t>(kAlignment)));
}

Bytes MemoryPool::block_bytes(Bytes bytes) {
  return bytes <= kLargestSmall ? kAlignment << class_of(bytes) : round_up(bytes, kPageBytes);
}

bool MemoryPool::add_slab(size_t size_class) {
  if (line_.free() < kSlabBytes) give_up_kept(kSlabBytes);
  if (line_.free() < kSlabBytes) return false;
  Large slab{{}, line_.reserve(Tag::Eager, kSlabBytes)};
  slab.block = {map_pages(kSlabBytes), kSlabBytes};
  if (!slab.block.is_set()) return false;
  slab.held.set_resident(kSlabBytes);
  const Bytes each = kAlignment << size_class;
  for (Bytes at = kSlabBytes - each; at >= 0; at -= each) free_small_[size_class].push_back(slab.block.data + at);
  slabs_.push_back(std::move(slab));
  return true;
}

Block MemoryPool::take_small(Bytes bytes) {
  const size_t size_class = class_of(bytes);
  std::vector<std::byte*>& free = free_small_[size_class];
  if (free.empty() && !add_slab(size_class)) return {};
  std::byte* const data = free.back();
  free.pop_back();
  return {data, kAlignment << size_class};
}

Block MemoryPool::take(Bytes bytes) {
  if (bytes <= kLargestSmall) return take_small(bytes);
  const Bytes wanted = block_bytes(bytes);
  if (const auto kept = kept_.find(wanted); kept != kept_.end()) {
    const Block block = kept->second.block;
    used_.emplace(block.data, std::move(kept->second));
    kept_.erase(kept);
    kept_bytes_ -= wanted;
    add_large(wanted);
    return block;
  }
  if (line_.free() < wanted) give_up_kept(wanted);
  if (line_.free() < wanted) return {};
  Large large{{}, line_.reserve(Tag::Eager, wanted)};
  large.block = {map_pages(wanted), wanted};
  if (!large.block.is_set()) return {};
  large.held.set_resident(wanted);
  const Block block = large.block;
  used_.emplace(block.data, std::move(large));
  add_large(wanted);
  return block;
}

void MemoryPool::give_back(Block block) noexcept {
  if (!block.is_set()) return;
  if (block.bytes <= kLargestSmall) {
    free_small_[class_of(block.bytes)].push_back(block.data);
    return;
  }
  const auto at = used_.find(block.data);
  kept_.emplace(block.bytes, std::move(at->second));
  used_.erase(at);
  large_bytes_ -= block.bytes;
  kept_bytes_ += block.bytes;
  // Bounded: code whose sizes change all the time would keep blocks that are never used again.
  while (kept_bytes_ > std::max(kLeastKept, most_large_bytes_)) give_up(kept_.begin());
}

void MemoryPool::give_up(std::multimap<Bytes, Large>::iterator kept) noexcept {
  kept_bytes_ -= kept->first;
  unmap(std::move(kept->second));
  kept_.erase(kept);
}

// The largest first: few system calls.
void MemoryPool::give_up_kept(Bytes wanted_free) noexcept {
  while (!kept_.empty() && line_.free() < wanted_free) {
    give_up(std::prev(kept_.end()));
  }
}

}  // namespace plimsoll::eager
