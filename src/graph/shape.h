// Rules and the text form of shapes, for operators and parsers.
#pragma once

#include <string_view>

#include <plimsoll/tensor.h>

namespace plimsoll::graph {

Shape broadcast(const Shape& a, const Shape& b);  // numpy rules; throws Error

// The product of the dimensions before the one that grows with the batch. 1: a sample lies in one piece, and samples
// one after another. For a shape without a batch: the product of all dimensions.
int64_t elements_before_batch(const Shape& shape);

// The inverse of to_string; throw Error.
Dim parse_dim(std::string_view text);
Shape parse_shape(std::string_view text);

}  // namespace plimsoll::graph
