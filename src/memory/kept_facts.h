// What was measured of this machine, kept in a small file of the user's cache folder: a plan must not differ from run
// to run because a measurement did.
#pragma once

#include <string>

#include "memory/scratch_file.h"

namespace plimsoll::memory {

// "$XDG_CACHE_HOME/plimsoll/machine" or "~/.cache/plimsoll/machine"; empty where neither variable is set.
std::string kept_facts_path();

struct KeptDiskSpeed {
  DiskSpeed speed;
  bool is_measured = false;  // false: nothing could be kept, and this is the speed of an ordinary disk
};

// The speed of the file system that holds `folder`, rounded to a power of two: measured the first time, with a file of
// at most `most_bytes`, and kept. Where nothing can be kept, that of an ordinary disk, to be the same in every run.
KeptDiskSpeed kept_disk_speed(const std::string& folder, Bytes most_bytes);

// Measures again and keeps the result. Throws Error when the file can't be written.
DiskSpeed measure_and_keep_disk_speed(const std::string& folder, Bytes most_bytes);

}  // namespace plimsoll::memory
