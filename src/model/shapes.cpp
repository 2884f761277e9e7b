#include "model/shapes.h"

#include <plimsoll/ops.h>

namespace plimsoll::model {
namespace {

Shape without_ones(const Shape& shape) {
  Shape kept;
  for (const Dim dim : shape)
    if (!(dim == Dim(1))) kept.push_back(dim);
  return kept;
}

}  // namespace

bool same_elements(const Shape& a, const Shape& b) { return without_ones(a) == without_ones(b); }

Tensor as_shape(Tensor x, const Shape& shape) { return x.shape() == shape ? x : reshape(x, shape); }

Tensor as_floats(Tensor x) { return x.dtype() == DType::F32 ? x : cast(x, DType::F32); }

}  // namespace plimsoll::model
