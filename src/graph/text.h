// The text form of a graph: printed, and read back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/body.h"

namespace plimsoll::graph {

using FindOp = const Op* (*)(std::string_view name);  // null when there is none of that name

std::string to_string(const Body& graph);

// Limits for a text from an untrusted source.
struct TextLimits {
  int64_t lines = INT64_MAX;
  int64_t elements = INT64_MAX;  // of a value, in one sample
};

// Reads what to_string wrote into an empty graph. Throws Error with the line.
void parse_graph(std::string_view text, FindOp find_op, Graph& into, const TextLimits& limits = {});

}  // namespace plimsoll::graph
