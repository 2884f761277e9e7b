// Initial values of variables: made in any pieces, always the same numbers; and their text form.
#pragma once

#include <cstdint>
#include <string_view>

#include <plimsoll/graph.h>

namespace plimsoll::graph {

// What `init` stands for in a variable of that shape: Scaled becomes a curve with a width. Throws Error for an identity
// that is no matrix.
Init resolve(const Init& init, const Shape& shape);

Init parse_init(std::string_view text);  // the inverse of to_string; throws Error

// Elements [first, first + count) of a float variable. Depends on (seed, name, index) only: any chunking, any order and
// any machine gives the same numbers.
void fill(const Init& init, uint64_t seed, std::string_view name, int64_t first, int64_t count, float* out);

}  // namespace plimsoll::graph
