// Damages files in the ways that disks, networks and enemies do. The same seed gives the same damage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::testing {

// One of `files`, after one to six changes.
std::string mutate(const std::vector<std::string>& files, uint64_t seed);

}  // namespace plimsoll::testing
