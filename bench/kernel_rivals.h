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
};

// Hands out memory that is filled with ordinary numbers.
using TakeMemory = std::function<std::byte*(Bytes)>;

std::vector<Rival> make_rivals(const KernelRow& row, const TakeMemory& take);

// Whether OpenBLAS was found.
bool has_openblas();

}  // namespace plimsoll
