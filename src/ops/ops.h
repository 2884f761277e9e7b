// What the files of operators share: the functions that users and the engine call, and the list of all operators.
#pragma once

#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include <plimsoll/graph.h>
#include <plimsoll/ops.h>
#include "graph/apply.h"
#include "kernels/window.h"

namespace plimsoll::ops {

using namespace kernels;  // an operator is written with what kernels share, and with the words of graph/op.h

using OpList = std::vector<const Op*>;

#define OPS(file) OpList file##_ops();
#define ARG(type, argument) type argument
#define OPT(type, argument, ...) type argument = __VA_ARGS__
#define FUN(result, function, description, ...)
#include <plimsoll/ops.inc>
#undef FUN
#define FUN(result, function, description, ...) result function(__VA_ARGS__, Name name = {});
#include "ops/internal.inc"
#undef OPS
#undef ARG
#undef OPT
#undef FUN

// State of adam in 8 bits: elements that share a scale, how many such blocks there are, and the fewest elements of a
// weight whose state is kept so.
constexpr int64_t kBlockOfBytes = 256;
constexpr int64_t kLeastInBytes = 4096;
int64_t blocks_of_bytes(int64_t elements);

// All operators, in the order of the lists; find_op: the operator of that name, or null.
std::span<const Op* const> all_ops();
const Op* find_op(std::string_view name);

}  // namespace plimsoll::ops
