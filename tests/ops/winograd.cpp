#include "kernels/winograd.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "ops/draw.h"

namespace plimsoll::ops {
namespace {

using namespace kernels;

const int64_t kBlock = Winograd::block();

using testing::draw;

// A convolution of images [samples, inputs, height, width] with zeros around, and what it should give.
struct Case {
  Winograd::Sizes sizes;
  bool is_backward = false, has_bias = false, has_residual = false;
  Activation activation = Activation::None;
  std::vector<float> x = draw(sizes.samples * sizes.inputs * sizes.height * sizes.width, 1);
  std::vector<float> kernel = draw(sizes.inputs * sizes.outputs * 9, 2);
  std::vector<float> bias = draw(sizes.outputs, 3);
  std::vector<float> residual = draw(sizes.samples * sizes.outputs * sizes.out_height * sizes.out_width, 4);

  std::vector<float> computed() const {
    const Winograd winograd(sizes, is_backward, activation);
    constexpr float kGuard = 12345;
    std::vector<float> workspace(static_cast<size_t>(winograd.workspace_bytes()) / sizeof(float) + 1, NAN);
    workspace.back() = kGuard;
    std::vector<float> y(residual.size(), NAN);
    winograd.run(
        {x.data(), kernel.data(), has_bias ? bias.data() : nullptr, has_residual ? residual.data() : nullptr, y.data()},
        workspace.data());
    EXPECT_EQ(workspace.back(), kGuard) << "more workspace than announced";
    return y;
  }

  static size_t image_at(int64_t channels, int64_t height, int64_t width, int64_t n, int64_t c, int64_t h, int64_t w) {
    return static_cast<size_t>((((n * channels / kBlock + c / kBlock) * height + h) * width + w) * kBlock + c % kBlock);
  }
  float kernel_at(int64_t output, int64_t input, int64_t h, int64_t w) const {
    const int64_t o = is_backward ? input : output, i = is_backward ? output : input;
    const int64_t columns = (is_backward ? sizes.outputs : sizes.inputs) / kBlock;
    const int64_t point = is_backward ? 8 - (3 * h + w) : 3 * h + w;
    const int64_t block = (o / kBlock * columns + i / kBlock) * 9 + point;
    return kernel[static_cast<size_t>((block * kBlock + i % kBlock) * kBlock + o % kBlock)];
  }

  double expected(int64_t n, int64_t o, int64_t h, int64_t w) const {
    double sum = has_bias ? bias[static_cast<size_t>(o)] : 0;
    if (has_residual) sum += residual[image_at(sizes.outputs, sizes.out_height, sizes.out_width, n, o, h, w)];
    for (int64_t i = 0; i < sizes.inputs; ++i)
      for (int64_t kh = 0; kh < 3; ++kh)
        for (int64_t kw = 0; kw < 3; ++kw) {
          const int64_t row = h + kh - sizes.top, column = w + kw - sizes.left;
          if (row < 0 || column < 0 || row >= sizes.height || column >= sizes.width) continue;
          sum += static_cast<double>(x[image_at(sizes.inputs, sizes.height, sizes.width, n, i, row, column)]) *
                 kernel_at(o, i, kh, kw);
        }
    return activation == Activation::Relu ? std::max(0.0, sum) : sum;
  }
};

void expect_right(const Case& one) {
  const Winograd::Sizes& n = one.sizes;
  const std::vector<float> y = one.computed();
  // Partial sums grow with the number of products, and the basis lets their errors grow about tenfold.
  const double tolerance = 1e-5 + 1e-7 * 9.0 * static_cast<double>(n.inputs);
  for (int64_t s = 0; s < n.samples; ++s)
    for (int64_t o = 0; o < n.outputs; o += 7)
      for (int64_t h = 0; h < n.out_height; ++h)
        for (int64_t w = 0; w < n.out_width; ++w)
          ASSERT_NEAR(y[Case::image_at(n.outputs, n.out_height, n.out_width, s, o, h, w)], one.expected(s, o, h, w),
                      tolerance)
              << n.inputs << " to " << n.outputs << " channels, sample " << s << " channel " << o << " at " << h << ","
              << w << (one.is_backward ? " backward" : "");
}

bool has_winograd() { return Winograd::suits({8, 32, 32, 32, 32, 32, 32, 1, 1}); }

// At least so many channels, in whole blocks.
int64_t channels(int64_t least) { return (least + kBlock - 1) / kBlock * kBlock; }

TEST(Winograd, IsRightForAllSizesAndDirections) {
  if (!has_winograd()) GTEST_SKIP() << "vectors of this processor hold neither eight nor sixteen numbers";
  for (const bool is_backward : {false, true}) {
    expect_right({{1, 32, 32, 6, 6, 4, 4, 0, 0}, is_backward});
    expect_right({{2, 32, channels(40), 7, 9, 7, 9, 1, 1}, is_backward});
    expect_right({{3, channels(40), 32, 14, 14, 14, 14, 1, 1}, is_backward});
    expect_right({{2, 64, 32, 5, 3, 7, 5, 2, 2}, is_backward});
    expect_right({{1, channels(288), channels(56), 8, 8, 8, 8, 1, 1}, is_backward});  // more than one stretch of inputs
    expect_right({{1, channels(520), 80, 13, 4, 13, 4, 1, 1}, is_backward});          // more than one chunk of outputs
    expect_right({{1, 32, 32, 10, 10, 9, 11, 0, 2}, is_backward});                    // zeros on some sides only
  }
}

TEST(Winograd, TheGradientOfTheKernelIsRight) {
  if (!has_winograd()) GTEST_SKIP() << "vectors of this processor hold neither eight nor sixteen numbers";
  const Winograd::Sizes all[] = {{1, 32, 32, 6, 6, 4, 4, 0, 0},
                                 {2, 32, channels(40), 7, 9, 7, 9, 1, 1},
                                 {3, 48, 32, 30, 29, 30, 29, 1, 1},  // more than one chunk of tiles
                                 {1, 528, 80, 5, 4, 5, 4, 1, 1},     // more than one chunk of outputs
                                 {1, 32, 32, 10, 10, 9, 11, 0, 2}};
  for (const Winograd::Sizes& n : all) {
    const Case one{n};  // residual stands for the gradient of the result
    const WinogradKernelGrad winograd(n);
    constexpr float kGuard = 12345;
    std::vector<float> workspace(static_cast<size_t>(winograd.workspace_bytes()) / sizeof(float) + 1, NAN);
    workspace.back() = kGuard;
    std::vector<float> dkernel(one.kernel.size(), NAN), dbias(one.bias.size(), NAN);
    winograd.run({one.x.data(), one.residual.data(), dkernel.data(), dbias.data(), false}, workspace.data());
    EXPECT_EQ(workspace.back(), kGuard) << "more workspace than announced";
    std::vector<float> twice = dkernel, bias_twice = dbias;
    winograd.run({one.x.data(), one.residual.data(), twice.data(), bias_twice.data(), true}, workspace.data());
    Case read{n};
    read.kernel = dkernel;
    const int64_t terms = n.samples * n.out_height * n.out_width;
    const double tolerance = 1e-5 + 1e-7 * static_cast<double>(terms);
    const auto image = [&](int64_t s, int64_t i, int64_t row, int64_t column) -> double {
      if (row < 0 || column < 0 || row >= n.height || column >= n.width) return 0;
      return one.x[Case::image_at(n.inputs, n.height, n.width, s, i, row, column)];
    };
    for (int64_t o = 0; o < n.outputs; o += 5) {
      double bias_sum = 0;
      for (int64_t i = 0; i < n.inputs; i += 11)
        for (int64_t point = 0; point < 9; ++point) {
          double sum = 0;
          bias_sum = 0;
          for (int64_t s = 0; s < n.samples; ++s)
            for (int64_t h = 0; h < n.out_height; ++h)
              for (int64_t w = 0; w < n.out_width; ++w) {
                const double dy = one.residual[Case::image_at(n.outputs, n.out_height, n.out_width, s, o, h, w)];
                sum += dy * image(s, i, h + point / 3 - n.top, w + point % 3 - n.left);
                bias_sum += dy;
              }
          ASSERT_NEAR(read.kernel_at(o, i, point / 3, point % 3), sum, tolerance)
              << n.inputs << " to " << n.outputs << " channels, " << o << "," << i << " at " << point;
        }
      ASSERT_NEAR(dbias[static_cast<size_t>(o)], bias_sum, tolerance);
    }
    for (size_t i = 0; i < dkernel.size(); ++i) ASSERT_EQ(twice[i], dkernel[i] + dkernel[i]) << i;
    for (size_t i = 0; i < dbias.size(); ++i) ASSERT_EQ(bias_twice[i], dbias[i] + dbias[i]) << i;
  }
}

TEST(Winograd, AddsBiasAndResidualAndActivates) {
  if (!has_winograd()) GTEST_SKIP() << "vectors of this processor hold neither eight nor sixteen numbers";
  const Winograd::Sizes sizes{2, 32, 32, 9, 9, 9, 9, 1, 1};
  expect_right({sizes, false, true, false});
  expect_right({sizes, false, true, true});
  expect_right({sizes, false, true, true, Activation::Relu});
  expect_right({sizes, true, true, false});
}

TEST(Winograd, SamplesDoNotDependOnTheirNeighbours) {
  if (!has_winograd()) GTEST_SKIP() << "vectors of this processor hold neither eight nor sixteen numbers";
  const Case all{{5, 32, 32, 11, 11, 11, 11, 1, 1}};
  Case some = all;
  some.sizes.samples = 2;
  some.residual.resize(some.residual.size() / 5 * 2);
  const std::vector<float> whole = all.computed(), part = some.computed();
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin()));
}

TEST(Winograd, GivesTheSameBitsForAnyNumberOfThreads) {
  if (!has_winograd()) GTEST_SKIP() << "vectors of this processor hold neither eight nor sixteen numbers";
  const int before = omp_get_max_threads();
  const Case one{{4, 64, 48, 14, 14, 14, 14, 1, 1}};
  const auto gradient = [&] {
    const WinogradKernelGrad winograd(one.sizes);
    std::vector<float> workspace(static_cast<size_t>(winograd.workspace_bytes()) / sizeof(float));
    std::vector<float> dkernel(one.kernel.size());
    winograd.run({one.x.data(), one.residual.data(), dkernel.data(), nullptr, false}, workspace.data());
    return dkernel;
  };
  omp_set_num_threads(1);
  const std::vector<float> alone = one.computed(), gradient_alone = gradient();
  omp_set_num_threads(3);
  EXPECT_EQ(one.computed(), alone);
  EXPECT_EQ(gradient(), gradient_alone);
  omp_set_num_threads(before);
}

}  // namespace
}  // namespace plimsoll::ops
