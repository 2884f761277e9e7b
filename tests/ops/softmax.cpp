#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "ops/evaluate.h"
#include "ops/ops.h"

namespace plimsoll::testing {
namespace {

std::vector<float> softmax_of(const std::vector<float>& x, int64_t classes, bool as_log) {
  Graph graph;
  const Tensor in = graph.placeholder("x", DType::F32, {static_cast<int64_t>(x.size()) / classes, classes});
  const Tensor y = as_log ? log_softmax(in, 1) : softmax(in, 1);
  Evaluator evaluator(graph, 1);
  evaluator.set_floats(in.id(), x);
  evaluator.run();
  return evaluator.floats(y.id());
}

// Short rows go in groups. Full groups and the last, partial one must give the same bits.
TEST(Softmax, RowsDoNotDependOnTheirNeighbours) {
  for (const int64_t classes : {1, 3, 10, 19, 32, 75}) {
    constexpr int64_t kRows = 37, kBad = 4;
    std::vector<float> x(static_cast<size_t>(kRows * classes));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 23) / 4;
    x[static_cast<size_t>(kBad * classes)] = NAN;
    const auto run = [&](int64_t first, int64_t last, bool as_log) {
      return softmax_of({x.begin() + first * classes, x.begin() + last * classes}, classes, as_log);
    };
    for (const bool as_log : {false, true}) {
      const std::vector<float> whole = run(0, kRows, as_log);
      for (int64_t row = 0; row < kRows; ++row) {
        const std::vector<float> alone = run(row, row + 1, as_log);
        for (int64_t j = 0; j < classes; ++j) {
          const float got = whole[static_cast<size_t>(row * classes + j)];
          EXPECT_EQ(std::isnan(got), row == kBad) << classes << " classes, row " << row;
          if (row == kBad) continue;
          EXPECT_EQ(got, alone[static_cast<size_t>(j)]) << classes << " classes, row " << row;
        }
      }
    }
  }
}

// Results larger than the caches are written past them: rows have the same bits as in a small result.
TEST(Softmax, LargeResultsAreThoseOfTheirRows) {
  for (const int64_t classes : {128, 1000, 1003, 4096}) {
    const int64_t rows = 7 * MiB / classes;
    std::vector<float> x(static_cast<size_t>(rows * classes));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 1013) / 64;
    const auto run = [&](int64_t first, int64_t last, bool as_log) {
      return softmax_of({x.begin() + first * classes, x.begin() + last * classes}, classes, as_log);
    };
    for (const bool as_log : {false, true}) {
      const std::vector<float> whole = run(0, rows, as_log);
      for (int64_t row = 0; row < rows; row += rows / 7) {
        const std::vector<float> alone = run(row, row + 1, as_log);
        for (int64_t j = 0; j < classes; ++j)
          ASSERT_EQ(whole[static_cast<size_t>(row * classes + j)], alone[static_cast<size_t>(j)])
              << classes << " classes, row " << row;
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::testing
