// Small examples of an operator: the op test builds each, runs it, and proves shape, gradient and every claimed trait.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace plimsoll::ops {

class SampleBuilder {
 public:
  struct Input {
    Tensor tensor;
    double low, high;
  };
  explicit SampleBuilder(Graph& graph) : graph_(graph) {}
  // The inputs with the numbers `changed` get the type `dtype` instead of the sample's: for the test of refused types.
  SampleBuilder(Graph& graph, std::vector<size_t> changed, DType dtype)
      : graph_(graph), changed_(std::move(changed)), changed_to_(dtype) {}

  // Reals drawn evenly from [low, high); gradients are checked with respect to each.
  Tensor input(const Shape& shape, double low = -1, double high = 1) { return make(DType::F32, shape, low, high); }
  // Whole numbers in [low, high).
  Tensor integers(const Shape& shape, double low, double high, DType dtype = DType::I32) {
    return make(dtype, shape, low, high);
  }
  // A variable that the operator may update; checked after the run.
  Tensor variable(const Shape& shape, double low = -1, double high = 1, DType dtype = DType::F32);
  Graph& graph() { return graph_; }
  const std::vector<Input>& inputs() const { return inputs_; }

 private:
  Tensor make(DType dtype, const Shape& shape, double low, double high);
  DType type_of_next(DType wanted) const;
  Graph& graph_;
  std::vector<Input> inputs_;
  std::vector<size_t> changed_ = {};
  DType changed_to_ = DType::F32;
};

struct Sample {
  std::string name;                                          // unique among the samples of the operator
  std::function<std::vector<Tensor>(SampleBuilder&)> build;  // through the functions that users call
  double tolerance = 1e-4;                                   // relative to the largest magnitude of the result
  bool has_gradient = true;                                  // false at points where the function has no derivative
};

}  // namespace plimsoll::ops
