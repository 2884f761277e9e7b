// Tensors of random numbers by shape, as nodes of a graph. Each run of the graph draws others, the same for any line,
// any number of threads, micro-batches and ranks. <plimsoll/ops.h> has the same functions with a tensor whose shape is
// taken; eager code has normal and uniform.
//
//   Tensor noisy = x + random_normal(graph, {Dim::batch(), 16}, 0, 0.1);
#pragma once

#include <plimsoll/graph.h>
#include <plimsoll/ops.h>

namespace plimsoll::ops {

Tensor random_normal(Graph& graph, const Shape& shape, double mean = 0, double deviation = 1, Name name = {});
// From low up to, but not including, high: reals (f32) or whole numbers (i32, i64).
Tensor random_uniform(Graph& graph, const Shape& shape, double low = 0, double high = 1, DType dtype = DType::F32,
                      Name name = {});
// 1 with that probability, else 0.
Tensor bernoulli(Graph& graph, const Shape& shape, double p = 0.5, Name name = {});

}  // namespace plimsoll::ops

namespace plimsoll {
using ops::bernoulli;
using ops::random_normal;
using ops::random_uniform;
}  // namespace plimsoll
