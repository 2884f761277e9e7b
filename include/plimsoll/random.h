// Tensors by shape, without inputs, as nodes of a graph. Random numbers are others in each run of the graph, the same
// for any line, any number of threads, micro-batches and ranks. <plimsoll/ops.h> has the same functions with a tensor
// whose shape is taken; eager code has normal, uniform, arange and eye.
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

// Numbers that follow each other (f32, i32 or i64), numbers evenly from first to last, and ones on a diagonal.
Tensor arange(Graph& graph, int64_t count, double first = 0, double step = 1, DType dtype = DType::F32, Name name = {});
Tensor linspace(Graph& graph, double first, double last, int64_t count, Name name = {});
Tensor eye(Graph& graph, int64_t rows, int64_t columns = 0, int64_t offset = 0, Name name = {});

}  // namespace plimsoll::ops

namespace plimsoll {
using ops::arange;
using ops::bernoulli;
using ops::eye;
using ops::linspace;
using ops::random_normal;
using ops::random_uniform;
}  // namespace plimsoll
