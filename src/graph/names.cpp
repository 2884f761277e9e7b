#include "graph/names.h"

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::graph {

void expect_name(std::string_view name) {
  if (name.find_first_of(" \t\n=(),\"") != std::string_view::npos)
    throw Error(fmt::format("'{}' can't be a name: no blanks, quotes, commas, brackets or '='", name));
}

std::string next_layer_name(LayerCounts& counts, std::string_view kind) {
  const int32_t earlier = counts[std::string(kind)]++;
  return earlier == 0 ? std::string(kind) : fmt::format("{}_{}", kind, earlier);
}

}  // namespace plimsoll::graph
