#include "random/graph_maker.h"

#include <cmath>

#include <fmt/format.h>

namespace plimsoll::testing {

void GraphMaker::make() {
  if (c.chance(30)) most_elements_ = 8192;
  {
    const Choices::Part part(c);
    const Dim b = Dim::batch();
    switch (c.below(3)) {
      case 0:
        keep(input(DType::F32, {b, size()}, 0));
        break;
      case 1:
        keep(input(DType::F32, {b, c.between(1, 5), c.between(2, 9), c.between(2, 9)}, 0));
        break;
      default:
        keep(input(DType::F32, {b, c.between(1, 7), size()}, 0));
    }
  }
  for (int i = 0; i < 24 && c.chance(85); ++i) {
    const Choices::Part part(c);
    const OpRule& rule = c.pick(op_rules());
    if (rule.slope > worst) continue;
    c.count(fmt::format("called {}", rule.function));
    rule.call(*this);
  }
  const Choices::Part part(c);
  // A loss without weights trains nothing: the last product has some.
  const Tensor x = matrix();
  const Tensor last = matmul(x, weight({x.dim(1), size()}));
  minimise(mean_squared_error(tanh(last), input(DType::F32, last.shape(), 0)));
  if (c.chance(30)) {
    const Tensor other = any();
    minimise(reduce_mean(tanh(other) * like(other)));
  }
  loss = losses_[0];
  for (size_t i = 1; i < losses_.size(); ++i) loss = loss + losses_[i];
}

Tensor GraphMaker::any() { return pool_[pool_.size() - 1 - c.below(pool_.size())]; }

Tensor GraphMaker::matrix() {
  const Tensor x = any();
  return x.rank() == 2 ? x : flatten(x);
}

Tensor GraphMaker::sequence() {
  const Tensor x = any();
  if (x.rank() == 3) return x;
  if (x.rank() == 4) return reshape(x, {x.dim(0), x.dim(1), x.dim(2) * x.dim(3)});
  return expand_dims(x, c.pick({1, 2}));
}

Tensor GraphMaker::image() {
  const Tensor x = any();
  if (x.rank() == 4) return x;
  const int64_t n = elements_of(x);
  const int64_t side = n % 9 == 0 ? 3 : n % 4 == 0 ? 2 : 1;
  return reshape(x, {Dim::batch(), n / side / side, side, side});
}

Tensor GraphMaker::like(const Tensor& x) {
  const Shape shape = x.shape();
  for (size_t i = pool_.size(); i-- > 0;)
    if (pool_[i].shape() == shape && !(pool_[i] == x) && c.chance(60)) return pool_[i];
  Shape own;
  for (int i = 1; i < shape.rank(); ++i) own.push_back(c.chance(20) ? Dim(1) : shape[i]);
  return weight(own, 1);
}

Tensor GraphMaker::weight(const Shape& shape, double reach, double middle) {
  if (reach == 0) {
    for (const Tensor& known : weights)
      if (known.shape() == shape && c.chance(20)) return known;  // trained in several places
    double inputs_of_one = 1;
    for (int i = 0; i < shape.rank(); ++i)
      if (shape.rank() == 2 ? i == 0 : i > 0) inputs_of_one *= static_cast<double>(shape[i].fixed());
    reach = std::sqrt(3 / inputs_of_one);
  }
  weights.push_back(graph.variable(fmt::format("w{}", weights.size()), DType::F32, shape,
                                   Init::uniform(middle - reach, middle + reach)));
  return weights.back();
}

Tensor GraphMaker::statistic(const Shape& shape, double number) {
  return graph.variable(graph.layer_name("statistic"), DType::F32, shape, Init::constant(number),
                        VariableRole::Statistic);
}

Tensor GraphMaker::input(DType dtype, const Shape& shape, int64_t below) {
  inputs.push_back({graph.placeholder(fmt::format("x{}", inputs.size()), dtype, shape), below});
  return inputs.back().placeholder;
}

void GraphMaker::keep(const Tensor& x) {
  if (pool_.empty() || (x.rank() >= 2 && x.rank() <= 4 && elements_of(x) <= most_elements_)) pool_.push_back(x);
}

}  // namespace plimsoll::testing
