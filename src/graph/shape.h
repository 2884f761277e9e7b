// Rules and the text form of shapes, for operators and parsers.
#pragma once

#include <string_view>

#include <plimsoll/tensor.h>

namespace plimsoll::graph {

Shape broadcast(const Shape& a, const Shape& b);  // numpy rules; throws Error

// The inverse of to_string; throw Error.
Dim parse_dim(std::string_view text);
Shape parse_shape(std::string_view text);

}  // namespace plimsoll::graph
