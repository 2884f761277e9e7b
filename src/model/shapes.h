// Converts shapes and types where a target or an output has the same elements in another form.
#pragma once

#include <plimsoll/tensor.h>

namespace plimsoll::model {

// Whether the shapes are equal, dimensions of size 1 aside.
bool same_elements(const Shape& a, const Shape& b);
Tensor as_shape(Tensor x, const Shape& shape);  // x itself where it has the shape already
Tensor as_floats(Tensor x);                     // f32

}  // namespace plimsoll::model
