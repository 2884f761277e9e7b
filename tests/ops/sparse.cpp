// Products with weights that are stored as mask and values against products with the same weights as a matrix: bit for
// bit.
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>
#include <omp.h>

#include <plimsoll/ops.h>
#include "base/random.h"
#include "kernels/sparse_tiles.h"
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace plimsoll::testing {
namespace {

std::vector<float> reals(int64_t count, uint64_t seed) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; ++i)
    numbers.push_back(static_cast<float>(unit_real(mix_bits(seed, static_cast<uint64_t>(i)))) - 0.5F);
  return numbers;
}

std::vector<float> weights_with_zeros(int64_t count, double zeros, uint64_t seed) {
  std::vector<float> numbers = reals(count, seed);
  for (int64_t i = 0; i < count; ++i)
    if (unit_real(mix_bits(seed + 1, static_cast<uint64_t>(i))) < zeros) numbers[static_cast<size_t>(i)] = 0;
  return numbers;
}

template <class T>
Contents bytes_of(const std::vector<T>& numbers) {
  Contents bytes(numbers.size() * sizeof(T));
  if (!numbers.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

// By the definition in sparse_tiles.h.
struct Stored {
  std::vector<uint8_t> mask;
  std::vector<float> values;
  std::vector<int32_t> starts;

  Stored(const std::vector<float>& dense, const Dims& dims) {
    const SparseOrder order = SparseOrder::of(dims);
    for (int64_t g = 0; g < order.across(); ++g)
      for (int64_t r = 0; r < order.rows; ++r) {
        if (r % SparseOrder::kTileRows == 0) starts.push_back(static_cast<int32_t>(values.size()));
        unsigned byte = 0;
        for (int64_t c = 0; c < 8; ++c) {
          const int64_t column = 8 * g + c, at = r * order.columns + column;
          if (column >= order.columns || at >= std::ssize(dense) || dense[static_cast<size_t>(at)] == 0) continue;
          byte |= 1U << c;
          values.push_back(dense[static_cast<size_t>(at)]);
        }
        mask.push_back(static_cast<uint8_t>(byte));
      }
  }
};

struct Parts {
  Tensor mask, values, starts;
  Parts(Graph& graph, const Stored& stored)
      : mask(graph.placeholder("mask", DType::U8, {std::ssize(stored.mask)})),
        values(graph.placeholder("values", DType::F32, {std::ssize(stored.values)})),
        starts(graph.placeholder("starts", DType::I32, {std::ssize(stored.starts)})) {}
  void set(Evaluator& evaluator, const Stored& stored) const {
    evaluator.set(mask.id(), bytes_of(stored.mask));
    evaluator.set(values.id(), bytes_of(stored.values));
    evaluator.set(starts.id(), bytes_of(stored.starts));
  }
};

struct Both {
  std::vector<float> sparse, dense;
  StepStatus status = {};
};

Both multiply_both(int64_t rows, int64_t inner, int64_t columns, double zeros, const std::string& activation,
                   int32_t change_of_start = 0) {
  const std::vector<float> kernel = weights_with_zeros(inner * columns, zeros, 3);
  Stored stored(kernel, {inner, columns});
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {rows, inner});
  const Tensor w = graph.placeholder("w", DType::F32, {inner, columns});
  const Tensor bias = graph.placeholder("bias", DType::F32, {columns});
  const Parts parts(graph, stored);
  graph::Attrs attrs;
  if (!activation.empty()) attrs.set("activation", activation);
  const auto find = [](std::string_view name) -> const graph::Op& {
    for (const graph::Op* op : ops::all_ops())
      if (op->name == name) return *op;
    throw std::runtime_error("no such operator");
  };
  const Tensor dense = apply(find("matmul"), {x, w, bias}, attrs, "dense");
  attrs.set("columns", columns);
  const Tensor sparse =
      apply(find("sparse_matmul"), {x, parts.values, parts.mask, parts.starts, bias}, attrs, "sparse");
  Evaluator evaluator(graph, 1);
  evaluator.set_floats(x.id(), reals(rows * inner, 5));
  evaluator.set_floats(w.id(), kernel);
  evaluator.set_floats(bias.id(), reals(columns, 6));
  stored.starts.back() += change_of_start;
  parts.set(evaluator, stored);
  Both both;
  evaluator.state.status = &both.status;
  evaluator.run();
  both.sparse = evaluator.floats(sparse.id());
  both.dense = evaluator.floats(dense.id());
  return both;
}

TEST(Sparse, ProductsHaveTheBitsOfDenseOnes) {
  const int threads = omp_get_max_threads();
  for (const int used : {1, 3}) {
    omp_set_num_threads(used);
    for (const int64_t rows : {1, 2, 3, 4, 5, 13, 130})
      for (const auto& [inner, columns] :
           {std::pair<int64_t, int64_t>{1, 1}, {7, 10}, {256, 16}, {700, 37}, {513, 264}})
        for (const double zeros : {0.0, 0.5, 0.8, 1.0}) {
          const Both both = multiply_both(rows, inner, columns, zeros, rows % 2 == 1 ? "relu" : "tanh");
          ASSERT_EQ(both.sparse, both.dense) << rows << " " << inner << " " << columns << " " << zeros;
          ASSERT_TRUE(both.status.is_good());
        }
  }
  omp_set_num_threads(threads);
}

TEST(Sparse, ExpandedWeightsAreTheSame) {
  for (const Dims& dims : {Dims{1, 1}, Dims{300, 21}, Dims{16, 8}, Dims{5, 3, 3, 3}, Dims{64, 32, 3, 3}, Dims{19}}) {
    const std::vector<float> kernel = weights_with_zeros(element_count(dims), 0.6, 9);
    const Stored stored(kernel, dims);
    Graph graph;
    const Parts parts(graph, stored);
    Shape shape;
    for (const int64_t size : dims) shape.push_back(size);
    const Tensor expanded = ops::sparse_expand(parts.values, parts.mask, parts.starts, shape);
    Evaluator evaluator(graph, 1);
    parts.set(evaluator, stored);
    evaluator.run();
    EXPECT_EQ(evaluator.floats(expanded.id()), kernel) << to_string(dims);
  }
}

// A file may hold anything: what lies outside of the values is not read.
TEST(Sparse, StartsOutsideOfTheValuesAreReported) {
  for (const int64_t rows : {1, 20})
    for (const int32_t change : {1, 1 << 30, -(1 << 30)}) {
      const Both both = multiply_both(rows, 700, 37, 0.5, "", change);
      EXPECT_FALSE(both.status.is_good()) << rows << " " << change;
      EXPECT_EQ(both.status.bad.index, 14);  // three tiles down, five across
      for (const float y : both.sparse) EXPECT_TRUE(std::isfinite(y));
    }
}

}  // namespace
}  // namespace plimsoll::testing
