// assign_rows: which numbers change, and that a number without a row changes none.
#include <gtest/gtest.h>

#include "ops/evaluate.h"
#include "ops/ops.h"

namespace plimsoll::testing {
namespace {

TEST(AssignRows, WritesTheNamedRowsAndNoOthers) {
  Graph graph;
  const Tensor variable = graph.variable("v", DType::F32, {2, 4, 1}, Init::zeros());
  const Tensor rows = graph.placeholder("rows", DType::I32, {3}), values = graph.placeholder<float>("x", {2, 3, 1});
  ops::assign_rows(variable, rows, values, -2);
  Evaluator evaluator(graph, 1);
  StepStatus status;
  evaluator.state.status = &status;
  evaluator.set_floats(variable.id(), {0, 1, 2, 3, 4, 5, 6, 7});
  evaluator.set_floats(values.id(), {10, 11, 12, 20, 21, 22});
  const auto set_rows = [&](std::vector<int32_t> numbers) {
    const auto bytes = std::as_bytes(std::span(numbers));
    evaluator.set(rows.id(), {bytes.begin(), bytes.end()});
  };
  set_rows({3, 0, 3});  // of equal numbers the last one stays
  evaluator.run();
  EXPECT_EQ(evaluator.floats(variable.id()), (std::vector<float>{11, 1, 2, 12, 21, 5, 6, 22}));
  EXPECT_TRUE(status.is_good());
  set_rows({1, 4, 2});
  evaluator.run();
  EXPECT_EQ(evaluator.floats(variable.id()), (std::vector<float>{11, 10, 12, 12, 21, 20, 22, 22}));
  EXPECT_EQ(status.bad.index, 1);
}

}  // namespace
}  // namespace plimsoll::testing
