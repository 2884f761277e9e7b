// Ids outside of a table and labels outside of the classes: noticed in the forward pass, ignored or NaN backward.
#include <cmath>

#include <gtest/gtest.h>

#include "autodiff/gradients.h"
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace plimsoll::testing {
namespace {

Contents integers(const std::vector<int32_t>& numbers) {
  const auto* bytes = reinterpret_cast<const std::byte*>(numbers.data());
  return {bytes, bytes + numbers.size() * sizeof(int32_t)};
}

TEST(Gather, IdsOutsideReadAsNaNAndAreNotScattered) {
  Graph graph;
  const Tensor table = graph.variable("table", DType::F32, {2, 1}, Init::zeros());
  const Tensor rows = graph.placeholder("rows", DType::I32, {4});
  const Tensor seed = graph.placeholder("seed", DType::F32, {4, 1});
  const Tensor y = gather(table, rows);
  const Tensor dtable = densify(gradients(y, std::vector{table}, seed)[0], table.shape());
  Evaluator evaluator(graph, 1);
  evaluator.set_floats(table.id(), {5, 6});
  evaluator.set(rows.id(), integers({1, -1, 2, 1}));
  evaluator.set_floats(seed.id(), {1, 2, 4, 8});
  evaluator.run();
  const std::vector<float> got = evaluator.floats(y.id());
  EXPECT_EQ(got[0], 6);
  EXPECT_TRUE(std::isnan(got[1]));
  EXPECT_TRUE(std::isnan(got[2]));
  EXPECT_EQ(got[3], 6);
  EXPECT_EQ(evaluator.floats(dtable.id()), (std::vector<float>{0, 9}));
}

TEST(SparseCrossEntropy, LabelOutsideGivesNaN) {
  Graph graph;
  const Tensor logits = graph.placeholder("logits", DType::F32, {2, 3});
  const Tensor kernel = graph.placeholder("kernel", DType::F32, {3, 3});
  const Tensor labels = graph.placeholder("labels", DType::I32, {2});
  const Tensor losses[] = {sparse_cross_entropy(logits, labels), linear_cross_entropy(logits, kernel, labels)};
  for (const int32_t bad : {-1, 3}) {
    Evaluator evaluator(graph, 1);
    evaluator.set_floats(logits.id(), {1, 2, 3, 4, 5, 6});
    evaluator.set_floats(kernel.id(), {1, 0, 0, 0, 1, 0, 0, 0, 1});
    evaluator.set(labels.id(), integers({1, bad}));
    evaluator.run();
    for (const Tensor& loss : losses) EXPECT_TRUE(std::isnan(evaluator.floats(loss.id())[0])) << bad;
  }
}

}  // namespace
}  // namespace plimsoll::testing
