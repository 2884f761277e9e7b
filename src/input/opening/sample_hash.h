// A few samples as a number, by which ranks find out whether they have the same data.
#pragma once

#include <string>

#include <plimsoll/memory_line.h>
#include "input/opening/data.h"

namespace plimsoll::input {

// A hash of the first, the middle and the last sample, in 16 digits; or the error of a sample that can't be read.
std::string hash_samples(const Samples& samples, const MemoryLine& line);

}  // namespace plimsoll::input
