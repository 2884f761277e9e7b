// A small array held in memory, so that samples in random order need no system call each: labels, mostly.
#pragma once

#include <memory>

#include <plimsoll/types.h>
#include "input/files/source.h"

namespace plimsoll::input {

// Larger arrays and longer samples are not held: the memory would gain too little time.
constexpr Bytes kMostHeldBytes = 2 * MiB, kLongestHeldSample = 16;

// Bytes that hold_if_small takes for a source.
Bytes bytes_to_hold(const Source& source);

// Reads all of a small array at once; gives others back as they are. Throws Error(BadData).
std::unique_ptr<Source> hold_if_small(std::unique_ptr<Source> source);

}  // namespace plimsoll::input
