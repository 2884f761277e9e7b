#include "kernels/product.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "ops/draw.h"

namespace plimsoll::ops {
namespace {

using namespace kernels;

using testing::draw;

struct Shape3 {
  int64_t rows, columns, inner;
};

struct Way {
  bool transpose_a = false, transpose_b = false, accumulate = false, bias = false;
  Activation activation = Activation::None;
};

struct Case {
  Shape3 shape;
  Way way;
  std::vector<float> a = draw(shape.rows * shape.inner, 1);
  std::vector<float> b = draw(shape.inner * shape.columns, 2);
  std::vector<float> bias = draw(shape.columns, 3);
  std::vector<float> c = draw(shape.rows * shape.columns, 4);

  MatrixOrder order_a() const { return order(shape.rows, shape.inner, way.transpose_a); }
  MatrixOrder order_b() const { return order(shape.inner, shape.columns, way.transpose_b); }
  static MatrixOrder order(int64_t rows, int64_t columns, bool transposed) {
    return transposed ? MatrixOrder::by_rows(columns, rows).transposed() : MatrixOrder::by_rows(rows, columns);
  }

  std::vector<float> computed() const {
    const Product product(order_a(), order_b(), shape.columns, way.accumulate, way.activation);
    constexpr float kGuard = 12345;
    std::vector<float> workspace(static_cast<size_t>(product.workspace_bytes()) / sizeof(float) + 1, NAN);
    workspace.back() = kGuard;
    std::vector<float> y = c;
    product.run(a.data(), b.data(), way.bias ? bias.data() : nullptr, y.data(), workspace.data());
    EXPECT_EQ(workspace.back(), kGuard) << "more workspace than announced";
    return y;
  }

  double expected(int64_t row, int64_t column) const {
    const MatrixOrder oa = order_a(), ob = order_b();
    double sum = way.accumulate ? c[static_cast<size_t>(row * shape.columns + column)] : 0;
    if (way.bias) sum += bias[static_cast<size_t>(column)];
    for (int64_t k = 0; k < shape.inner; ++k)
      sum += static_cast<double>(a[static_cast<size_t>(row * oa.row_stride + k * oa.column_stride)]) *
             b[static_cast<size_t>(k * ob.row_stride + column * ob.column_stride)];
    switch (way.activation) {
      case Activation::None:
        return sum;
      case Activation::Relu:
        return std::max(0.0, sum);
      case Activation::Relu6:
        return std::clamp(sum, 0.0, 6.0);
      case Activation::Sigmoid:
        return 1 / (1 + std::exp(-sum));
      case Activation::Tanh:
        return std::tanh(sum);
    }
    return sum;
  }
};

void expect_right(const Case& one) {
  const std::vector<float> y = one.computed();
  const double tolerance = 1e-6 * std::sqrt(static_cast<double>(one.shape.inner) + 10) * 4;
  for (int64_t row = 0; row < one.shape.rows; ++row)
    for (int64_t column = 0; column < one.shape.columns; ++column)
      ASSERT_NEAR(y[static_cast<size_t>(row * one.shape.columns + column)], one.expected(row, column), tolerance)
          << one.shape.rows << "x" << one.shape.inner << "x" << one.shape.columns << " at " << row << "," << column
          << (one.way.transpose_a ? " a'" : "") << (one.way.transpose_b ? " b'" : "");
}

// Sizes around the vector, the panel, the unit, the chunk and the depth, and large ones where a is packed.
const Shape3 kShapes[] = {{1, 1, 1},   {5, 7, 3},       {6, 16, 8},     {7, 17, 9},     {13, 33, 257},
                          {97, 9, 20}, {100, 100, 300}, {50, 300, 260}, {200, 530, 40}, {3, 600, 515}};

TEST(Product, IsRightForAllSizesAndOrders) {
  for (const Shape3& shape : kShapes)
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true}) expect_right({shape, {transpose_a, transpose_b}});
}

TEST(Product, AddsBiasAndSumsAndActivates) {
  for (const Shape3& shape : {kShapes[3], kShapes[4], kShapes[7]}) {
    expect_right({shape, {.accumulate = true}});
    expect_right({shape, {.bias = true}});
    for (const Activation activation : {Activation::Relu, Activation::Relu6, Activation::Sigmoid, Activation::Tanh})
      expect_right({shape, {.bias = true, .activation = activation}});
  }
}

TEST(Product, ActivationsKeepWhatIsNotANumber) {
  for (const Activation activation : {Activation::Relu, Activation::Relu6}) {
    Case one{{7, 17, 9}, {.bias = true, .activation = activation}};
    one.a[3] = NAN;
    const std::vector<float> y = one.computed();
    for (int64_t i = 0; i < 7 * 17; ++i) EXPECT_EQ(std::isnan(y[static_cast<size_t>(i)]), i < 17) << i;
  }
}

TEST(Product, RowsDoNotDependOnTheirNeighbours) {
  const Case all{{100, 90, 300}, {}};
  const std::vector<float> whole = all.computed();
  for (const int64_t rows : {31, 1}) {
    Case some = all;
    some.shape.rows = rows;
    std::vector<float> part = some.computed();
    part.resize(static_cast<size_t>(rows * 90));
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin())) << rows;
  }
}

// One row reads b where it lies; its sums run as those of many rows.
TEST(Product, OneRowHasTheBitsOfMany) {
  for (const int64_t columns : {3, 8, 16, 31, 130, 517}) {
    const Way way{.accumulate = true, .bias = true, .activation = Activation::Relu};
    const Case many{{6, columns, 515}, way};
    Case one = many;
    one.shape.rows = 1;
    const std::vector<float> all = many.computed(), row = one.computed();
    EXPECT_TRUE(std::equal(row.begin(), row.begin() + columns, all.begin())) << columns;
    expect_right({{1, columns, 515}, way});
    expect_right({{1, columns, 515}, {.transpose_a = true}});
    expect_right({{1, columns, 515}, {.transpose_b = true}});
  }
}

TEST(Product, GivesTheSameBitsForAnyNumberOfThreads) {
  const int before = omp_get_max_threads();
  const Case one{{150, 400, 600}, {.transpose_a = true}};
  omp_set_num_threads(1);
  const std::vector<float> alone = one.computed();
  omp_set_num_threads(3);
  EXPECT_EQ(one.computed(), alone);
  omp_set_num_threads(before);
}

}  // namespace
}  // namespace plimsoll::ops
