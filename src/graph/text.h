// The text form of a graph: printed, and read back.
#pragma once

#include <string>
#include <string_view>

#include "graph/body.h"

namespace plimsoll::graph {

using FindOp = const Op* (*)(std::string_view name);  // null when there is none of that name

std::string to_string(const Body& graph);
// Reads what to_string wrote into an empty graph. Throws Error with the line.
void parse_graph(std::string_view text, FindOp find_op, Graph& into);

}  // namespace plimsoll::graph
