#include "ops/sample.h"

#include <algorithm>

#include <fmt/format.h>

namespace plimsoll::ops {

DType SampleBuilder::type_of_next(DType wanted) const {
  return std::find(changed_.begin(), changed_.end(), inputs_.size()) != changed_.end() ? changed_to_ : wanted;
}

Tensor SampleBuilder::make(DType dtype, const Shape& shape, double low, double high) {
  Tensor tensor = graph_.placeholder(fmt::format("in{}", inputs_.size()), type_of_next(dtype), shape);
  inputs_.push_back({tensor, low, high});
  return tensor;
}

Tensor SampleBuilder::variable(const Shape& shape, double low, double high, DType dtype) {
  Tensor tensor = graph_.variable(fmt::format("in{}", inputs_.size()), type_of_next(dtype), shape, Init::zeros());
  inputs_.push_back({tensor, low, high});
  return tensor;
}

}  // namespace plimsoll::ops
