// What a plan may use: bytes, samples at once, the speeds of the disk, and which levers.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include <plimsoll/types.h>

namespace plimsoll::plan {

struct Limits {
  Bytes bytes = std::numeric_limits<Bytes>::max();  // the arena, and what the plan itself takes, never pass this
  std::vector<Bytes> more_spaces = {};              // the same for each space behind the host
  int64_t batch = 1;
  // A plan and its executor take memory too: so much for each action.
  Bytes action_bytes = 0;
  Bytes bytes_of_actions(int64_t actions) const { return actions * action_bytes; }
  // What planning may take for itself, counted by plan/effort.h. The first option is always searched.
  Bytes search_bytes = std::numeric_limits<Bytes>::max();
  Bytes disk_bytes = 0;                             // room for spilling
  std::optional<std::vector<int32_t>> stored = {};  // variables in the scratch file, when another plan decided it
  // With variables in the scratch file: room behind the resident ones, through which one of them is copied in or out.
  Bytes staging_bytes = 0;
  double disk_read_bytes_per_s = 0;
  double disk_write_bytes_per_s = 0;
  int64_t pack_nodes = 100'000;  // effort of the exact packer: a count, because a clock would not repeat
  Levers levers{};
  bool operator==(const Limits&) const = default;
};

}  // namespace plimsoll::plan
