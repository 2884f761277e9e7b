// A temporary file without a name, for spilled data: it is removed when the process ends, also by a crash.
#pragma once

#include <string>

#include <plimsoll/types.h>
#include "memory/arena.h"
#include "memory/descriptor.h"

namespace plimsoll::memory {

struct DiskSpeed {
  double read_bytes_per_s = 0;
  double write_bytes_per_s = 0;
};

// A short probe, about 0.1 s each way: up to 64 MiB, and no more than `most`, are written to a file in `folder` and
// read back. Takes no more memory than ScratchFile::kStagingBytes. Throws what the constructor of ScratchFile throws.
DiskSpeed measure_disk(const std::string& folder, Bytes most = 64 * MiB);

// Bypasses the page cache, whose pages count against a control group. For one thread at a time.
class ScratchFile {
 public:
  static constexpr Bytes kBlock = kDiskBlock;
  static constexpr Bytes kStagingBytes = MiB;  // what a line must have free under Tag::Staging

  // How the page cache is kept empty: a file system that refuses the first gets the second.
  enum class Cache { Bypassed, DroppedBehind };

  // The disk space is taken at once, so that a full disk shows here and not in a step. Throws Error: DiskFull, or
  // Usage when `folder` cannot hold the file or is itself memory.
  ScratchFile(std::string folder, Bytes bytes, Cache cache = Cache::Bypassed);
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  // Any memory and any length, fastest when both are multiples of kBlock. `at` is a multiple of kBlock; a write may
  // change the rest of its last block. Throws Error with the folder and the place.
  void read(Bytes at, void* into, Bytes bytes);
  void write(Bytes at, const void* from, Bytes bytes);

  Bytes bytes() const { return bytes_; }  // a multiple of kBlock
  Cache cache() const { return cache_; }
  const std::string& folder() const { return folder_; }

 private:
  friend DiskSpeed measure_disk(const std::string& folder, Bytes most);

  bool preallocate();  // false when the file system cannot
  bool bypass_cache();
  bool goes_straight(const void* memory, Bytes bytes) const;
  void read_fully(Bytes at, std::byte* into, Bytes bytes);
  void write_fully(Bytes at, const std::byte* from, Bytes bytes);
  void drop_behind(Bytes at, Bytes bytes, bool written);
  [[noreturn]] void fail(const char* what, Bytes at, Bytes bytes, int reason) const;

  std::string folder_;
  Bytes bytes_;
  Arena staging_;
  Descriptor file_;
  Cache cache_;
  Bytes memory_alignment_ = kBlock;  // of memory that the disk can reach without staging
};

}  // namespace plimsoll::memory
