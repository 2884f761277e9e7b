// A NaN is not lost in what takes the largest or the smallest, wherever it is among the numbers.
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <plimsoll/graph.h>
#include <plimsoll/ops.h>
#include "ops/evaluate.h"

namespace plimsoll::testing {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// 3 x 600 numbers, reduced along the rows, along the columns, and all together.
TEST(NaN, StaysInReductions) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {3, 600});
  struct Reduction {
    Tensor largest, smallest;
  };
  const auto reduction = [&](const Dims& axes) { return Reduction{reduce_max(x, axes), reduce_min(x, axes)}; };
  const Reduction rows = reduction({1}), columns = reduction({0}), all = reduction({});
  const Tensor in_rows = argmax(x, 1), in_columns = argmax(x, 0);
  for (const int64_t at : {0, 1, 5, 16, 63, 64, 255, 256, 300, 511, 512, 598, 599}) {
    for (const int64_t row : {0, 1, 2}) {
      SCOPED_TRACE(fmt::format("row {}, column {}", row, at));
      std::vector<float> numbers(3 * 600);
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<float>(i));
      numbers[static_cast<size_t>(row * 600 + at)] = kNaN;
      Evaluator evaluator(graph, 1);
      evaluator.set_floats(x.id(), numbers);
      evaluator.run();
      for (const Tensor& result : {rows.largest, rows.smallest})
        for (int64_t r = 0; r < 3; ++r)
          EXPECT_EQ(std::isnan(evaluator.floats(result.id())[static_cast<size_t>(r)]), r == row) << r;
      for (const Tensor& result : {columns.largest, columns.smallest})
        for (int64_t c = 0; c < 600; ++c)
          ASSERT_EQ(std::isnan(evaluator.floats(result.id())[static_cast<size_t>(c)]), c == at) << c;
      for (const Tensor& result : {all.largest, all.smallest})
        EXPECT_TRUE(std::isnan(evaluator.floats(result.id()).front()));
      EXPECT_EQ(evaluator.floats(in_rows.id())[static_cast<size_t>(row)], static_cast<float>(at));
      EXPECT_EQ(evaluator.floats(in_columns.id())[static_cast<size_t>(at)], static_cast<float>(row));
    }
  }
}

TEST(NaN, OfSeveralTheFirstIsTheLargest) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {5, 2});
  const Tensor in_columns = argmax(x, 0), in_all = argmax(reshape(x, {10}), 0);
  Evaluator evaluator(graph, 1);
  evaluator.set_floats(x.id(), {1, 9, 2, kNaN, kNaN, 7, 3, kNaN, kNaN, 8});
  evaluator.run();
  EXPECT_EQ(evaluator.floats(in_columns.id()), (std::vector<float>{2, 1}));
  EXPECT_EQ(evaluator.floats(in_all.id()), std::vector<float>{3});
}

}  // namespace
}  // namespace plimsoll::testing
