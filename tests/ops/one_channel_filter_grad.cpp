#include "kernels/one_channel_filter_grad.h"

#include <omp.h>

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "ops/draw.h"

namespace plimsoll::ops {
namespace {

using namespace kernels;

using testing::draw;
using Sizes = OneChannelFilterGrad::Sizes;

struct Found {
  std::vector<float> kernel, bias;
};

int64_t padded(const Sizes& n) { return round_up(n.outputs, n.block); }
int64_t points(std::array<int64_t, 2> size) { return size[0] * size[1]; }

std::vector<float> image_of(const Sizes& n) { return draw(n.samples * points(n.image), 1); }
std::vector<float> gradient_of(const Sizes& n) { return draw(n.samples * points(n.result) * padded(n), 2); }

// By the definition, in double precision.
Found expected(const Sizes& n) {
  const std::vector<float> x = image_of(n), dy = gradient_of(n);
  std::vector<double> kernel(static_cast<size_t>(points(n.kernel) * padded(n))), bias(static_cast<size_t>(n.outputs));
  const auto [down, across] = n.result;
  for (int64_t i = 0; i < n.samples * points(n.result) * padded(n); ++i) {
    const int64_t lane = i % n.block, column = i / n.block % across, row = i / n.block / across % down;
    const int64_t plane = i / n.block / across / down, blocks = padded(n) / n.block;
    const int64_t output = plane % blocks * n.block + lane;
    if (output < n.outputs) bias[static_cast<size_t>(output)] += static_cast<double>(dy[static_cast<size_t>(i)]);
    for (int64_t tap = 0; tap < points(n.kernel); ++tap) {
      const int64_t y = row * n.window.strides[0] - n.window.pads[0] + tap / n.kernel[1] * n.window.dilations[0];
      const int64_t z = column * n.window.strides[1] - n.window.pads[1] + tap % n.kernel[1] * n.window.dilations[1];
      if (y < 0 || z < 0 || y >= n.image[0] || z >= n.image[1]) continue;
      const float seen = x[static_cast<size_t>((plane / blocks * n.image[0] + y) * n.image[1] + z)];
      kernel[static_cast<size_t>((plane % blocks * points(n.kernel) + tap) * n.block + lane)] +=
          static_cast<double>(seen) * static_cast<double>(dy[static_cast<size_t>(i)]);
    }
  }
  return {{kernel.begin(), kernel.end()}, {bias.begin(), bias.end()}};
}

Found run(const Sizes& n, bool adds, float start) {
  Found found{std::vector<float>(static_cast<size_t>(points(n.kernel) * padded(n)), start),
              std::vector<float>(static_cast<size_t>(n.outputs), start)};
  const OneChannelFilterGrad grad(n);
  std::vector<float> workspace(static_cast<size_t>(grad.workspace_bytes()) / sizeof(float), 5.0F);
  const std::vector<float> x = image_of(n), dy = gradient_of(n);
  grad.run({x.data(), dy.data(), found.kernel.data(), found.bias.data(), adds}, workspace.data());
  return found;
}

void expect_near(const std::vector<float>& found, const std::vector<float>& wanted, float shift) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], wanted[i] + shift, 2e-4 * (1 + std::abs(wanted[i])));
}

class OneChannelFilterGradTest : public ::testing::TestWithParam<Sizes> {};

TEST_P(OneChannelFilterGradTest, AgreesWithTheDefinition) {
  const Found wanted = expected(GetParam());
  for (const bool adds : {false, true}) {
    const Found found = run(GetParam(), adds, 3);
    expect_near(found.kernel, wanted.kernel, adds ? 3.0F : 0.0F);
    expect_near(found.bias, wanted.bias, adds ? 3.0F : 0.0F);
  }
}

TEST_P(OneChannelFilterGradTest, DoesNotDependOnTheThreads) {
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const Found alone = run(GetParam(), false, 0);
  omp_set_num_threads(3);
  const Found together = run(GetParam(), false, 0);
  omp_set_num_threads(threads);
  EXPECT_EQ(alone.kernel, together.kernel);
  EXPECT_EQ(alone.bias, together.bias);
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, OneChannelFilterGradTest,
    ::testing::Values(Sizes{5, 6, 8, {28, 28}, {28, 28}, {5, 5}, Window::padded(2)},
                      Sizes{1, 16, 16, {9, 7}, {7, 5}, {3, 3}, {}},
                      Sizes{19, 20, 8, {6, 9}, {3, 5}, {3, 3}, Window::strided(2, 1)},
                      Sizes{2, 8, 8, {70, 5}, {68, 3}, {3, 3}, {}},  // several bands, the last not full
                      Sizes{2, 8, 8, {9, 8}, {7, 4}, {2, 3}, {{1, 1}, {0, 0, 0, 0}, {2, 2}, 1}},
                      Sizes{2, 8, 8, {4, 3}, {1, 1}, {2, 2}, {{9, 9}, {3, 4, 0, 0}, {1, 1}, 1}}));

}  // namespace
}  // namespace plimsoll::ops
