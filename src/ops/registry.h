// Operators that users registered (<plimsoll/own_op.h>), in the order in which they did.
#pragma once

#include <cstddef>
#include <span>

#include "graph/op.h"

namespace plimsoll::ops {

constexpr size_t kMostRegistered = 128;

// Valid for the life of the process; later calls may give more.
std::span<const graph::Op* const> registered_ops();

}  // namespace plimsoll::ops
