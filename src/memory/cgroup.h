// What the control groups of this process (v1 and v2) say about its memory.
#pragma once

#include <string>
#include <vector>

#include <plimsoll/types.h>

namespace plimsoll::memory {

struct CgroupMemory {
  std::string file = {};  // where the limit was read
  Bytes limit = 0;        // groups without a limit are left out
  Bytes used = 0;         // page cache included
  Bytes page_cache = 0;   // of that, file pages the kernel can drop
};

// Every limited group on the path of this process, from the root down. `root` stands before /proc and /sys, for tests.
std::vector<CgroupMemory> cgroup_memory(const std::string& root = "");

// The whole of a small file; empty when it is absent or not readable. Throws Error when reading fails: a failed read
// must not count as zero.
std::string read_small_file(const std::string& path);

}  // namespace plimsoll::memory
