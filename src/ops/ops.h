// Every operator as a function over Tensors. The list itself is list.inc: one line for each operator.
#pragma once

#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "kernels/window.h"

namespace plimsoll::ops {

using namespace kernels;  // an operator is written with what kernels share

using OpList = std::vector<const Op*>;

#define OPS(file) OpList file##_ops();
#define FUN(result, function, parameters) result function parameters;
#include "ops/list.inc"
#undef OPS
#undef FUN

// All operators, in the order of the list; and the one of that name, or null.
std::span<const Op* const> all_ops();
const Op* find_op(std::string_view name);

}  // namespace plimsoll::ops

namespace plimsoll {

#define OPS(file)
#define FUN(result, function, parameters) using ops::function;
#include "ops/list.inc"
#undef OPS
#undef FUN

}  // namespace plimsoll
