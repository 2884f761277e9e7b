// What a kernel is measured against: libraries at the same sizes in the layouts that they like best, or a plain copy.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernel_rows.h"

namespace plimsoll {

struct Rival {
  std::string name;
  std::function<void()> run;
  double share = 1;  // the part of the rival's work that the kernel does too
};

// Copies of so many bytes stay in no cache: they run at the speed of memory.
constexpr Bytes kMemoryBytes = 256 * MiB;

// Hands out memory that is filled with ordinary numbers.
using TakeMemory = std::function<std::byte*(Bytes)>;

std::vector<Rival> make_rivals(const KernelRow& row, const TakeMemory& take);

// Whether OpenBLAS was found.
bool has_openblas();

}  // namespace plimsoll
