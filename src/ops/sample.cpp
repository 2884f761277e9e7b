#include "ops/sample.h"

#include <fmt/format.h>

namespace plimsoll {

Tensor SampleBuilder::make(DType dtype, const Shape& shape, double low, double high) {
  const Tensor tensor = graph_.placeholder(fmt::format("in{}", inputs_.size()), dtype, shape);
  inputs_.push_back({tensor, low, high});
  return tensor;
}

Tensor SampleBuilder::variable(const Shape& shape, double low, double high, DType dtype) {
  const Tensor tensor = graph_.variable(fmt::format("in{}", inputs_.size()), dtype, shape, Init::zeros());
  inputs_.push_back({tensor, low, high});
  return tensor;
}

}  // namespace plimsoll
