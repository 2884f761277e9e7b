// What the rules of operators have in common.
#pragma once

#include <algorithm>

#include "random/graph_maker.h"

namespace plimsoll::testing {

using M = GraphMaker;

template <Tensor (*Function)(Tensor, Name)>
void map(M& m) {
  m.keep(Function(m.any(), {}));
}

// Positive, and not near zero.
inline Tensor positive(const Tensor& x) { return x * x * 0.5 + 0.5; }

template <Tensor (*Function)(Tensor, Name)>
void map_positive(M& m) {
  m.keep(Function(positive(m.any()), {}));
}

template <Tensor (*Function)(Tensor, Tensor, Name)>
void pair(M& m) {
  const Tensor a = m.any();
  m.keep(Function(a, m.like(a), {}));
}

template <Tensor (*Function)(Tensor, Tensor, Name)>
void compare(M& m) {
  const Tensor a = m.any(), b = m.like(a);
  m.keep(where(Function(a, b, {}), a, b * 0.5));
}

inline Size2d filter_within(M& m, const Tensor& x, int64_t most) {
  return {m.c.between(1, std::min(most, x.dim(2).count())), m.c.between(1, std::min(most, x.dim(3).count()))};
}

inline int axis_of(M& m, const Tensor& x) { return static_cast<int>(m.c.between(1, x.rank() - 1)); }

template <Tensor (*Function)(Tensor, Dims, bool, Name)>
void reduce(M& m) {
  const Tensor x = m.any();
  const int axis = static_cast<int>(m.c.between(0, x.rank() - 1));
  const Tensor y = Function(x, {axis}, true, {});
  if (axis == 0)
    m.keep(x - y * 0.25);
  else if (x.rank() > 2 && m.c.chance(50))
    m.keep(squeeze(y, axis));
  else
    m.keep(y);
}

// The rules of array_rules.cpp, which op_rules() appends.
std::span<const OpRule> array_rules();

}  // namespace plimsoll::testing
