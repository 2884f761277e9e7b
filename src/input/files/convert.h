// Turns the numbers of a file into the element type that a model takes: scaled, and refused where they do not fit.
// Kernels convert by `kernels/tile_convert.cpp`, which saturates instead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <plimsoll/types.h>

namespace plimsoll::input {

// y = x * scale + offset; scale and offset only when `to` is f32.
struct Conversion {
  DType to = DType::F32;
  float scale = 1;
  float offset = 0;
};

// Empty when it can be done: anything to f32, integers and bool to i32 and i64. Otherwise the reason.
std::string why_not(DType from, const Conversion& conversion);

// Returns the index of the first element that the target type cannot hold, or nothing. The buffers do not overlap.
std::optional<int64_t> convert(DType from, const void* input, const Conversion& conversion, void* output,
                               int64_t elements);

}  // namespace plimsoll::input
