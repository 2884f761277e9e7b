#include "autodiff/treatment.h"

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "graph/body.h"
#include "ops/ops.h"

namespace plimsoll::autodiff {
namespace {

constexpr double kTiny = 1e-7;  // Keras' epsilon

// All axes over which one output sums: the inputs of a matrix, all but the first axis of a filter.
Dims norm_axes(const Shape& shape, int axis) {
  if (axis >= 0) return {axis};
  if (shape.rank() <= 2) return shape.rank() == 0 ? Dims{} : Dims{0};
  Dims axes;
  for (int i = 1; i < shape.rank(); ++i) axes.push_back(i);
  return axes;
}

Tensor constrained(Tensor w, const Constraint& constraint) {
  using Kind = Constraint::Kind;
  if (constraint.kind == Kind::NonNegative) return relu(w);
  const Tensor length = sqrt(reduce_sum(square(w), norm_axes(w.shape(), constraint.axis), true));
  const Tensor divisor = scale(length, 1, kTiny);
  if (constraint.kind == Kind::UnitNorm) return div(w, divisor);
  Tensor wanted = clip(length, constraint.kind == Kind::MaxNorm ? 0 : constraint.least, constraint.most);
  if (constraint.kind == Kind::MinMaxNorm && constraint.rate != 1)
    wanted = add(scale(wanted, constraint.rate), scale(length, 1 - constraint.rate));
  return mul(w, div(wanted, divisor));
}

}  // namespace

const StoredVariable& stored(Tensor variable) { return *variable.graph().body().variable_of(variable.id()).stored; }

Tensor penalty(std::span<const Tensor> weights) {
  Tensor sum;
  const auto more = [&](Tensor of, double by) {
    if (by == 0) return;
    const Tensor part = scale(reduce_sum(of), by);
    sum = sum.is_set() ? add(sum, part) : part;
  };
  for (const Tensor& weight : weights) {
    const Regulariser& regulariser = stored(weight).regulariser;
    if (regulariser.is_empty()) continue;
    const Tensor w = stop_gradient(weight);
    if (regulariser.l1 != 0) more(abs(w), regulariser.l1);
    if (regulariser.l2 != 0) more(square(w), regulariser.l2);
  }
  return sum;
}

std::optional<NodeId> add_constraint(Tensor weight, bool is_whole) {
  const Constraint& constraint = stored(weight).constraint;
  if (constraint.kind == Constraint::Kind::None) return {};
  if (!is_whole && constraint.kind != Constraint::Kind::NonNegative)
    throw Error(
        fmt::format("'{}' has a constraint of its norm, but ranks have slices of it; train without sharing weights",
                    weight.name()),
        ErrorKind::Usage);
  return ops::assign(weight, constrained(weight, constraint));
}

}  // namespace plimsoll::autodiff
