// Every operator as a function over Tensors. The list itself is list.inc: one line for each operator.
#pragma once

#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "ops/window.h"

namespace plimsoll {

using OpList = std::vector<const Op*>;
using Name = std::string_view;  // of the node; empty: the operator's, made unique

#define OPS(file) OpList file##_ops();
#define FUN(result, function, parameters) result function parameters;
#include "ops/list.inc"
#undef OPS
#undef FUN

// All operators, in the order of the list; and the one of that name, or null.
std::span<const Op* const> all_ops();
const Op* find_op(std::string_view name);

}  // namespace plimsoll
