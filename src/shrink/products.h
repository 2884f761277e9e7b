// Which nodes of a graph are products with a weight.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "graph/body.h"
#include "model/rewrite.h"

namespace plimsoll::shrink {

// The weight of x W, where W is a variable [inputs, outputs]; unset for any other node.
std::optional<ValueId> weight_of(const graph::Body& graph, const graph::Node& node);

// "block1/fc1" of "gpt2-small/block1/fc1/kernel", relative to the scope "gpt2-small/".
std::string layer_of(std::string_view weight, std::string_view scope);

}  // namespace plimsoll::shrink
