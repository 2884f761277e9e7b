// Rules for names: what one may consist of, and how layers are numbered.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace plimsoll::graph {

using LayerCounts = std::unordered_map<std::string, int32_t>;  // by kind: how many have a name

// Throws Error for a name that the text form of a graph could not hold.
void expect_name(std::string_view name);

// dense, dense_1, dense_2 ...
std::string next_layer_name(LayerCounts& counts, std::string_view kind);

}  // namespace plimsoll::graph
