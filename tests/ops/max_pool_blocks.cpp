#include "kernels/max_pool_blocks.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "ops/draw.h"

namespace plimsoll::ops {
namespace {

using namespace kernels;

using testing::draw;

struct Case {
  std::array<int64_t, 2> image, size;
  Window window;
  int64_t block;

  PoolGeometry geometry() const {
    PoolGeometry g{image, {}, size, window};
    for (size_t i = 0; i < 2; ++i)
      g.result[i] = (image[i] + window.pads[i] + window.pads[i + 2] - size[i]) / window.strides[i] + 1;
    return g;
  }
};

int64_t count(std::array<int64_t, 2> size) { return size[0] * size[1]; }

// One pixel, channel by channel, by the definition.
struct Plain {
  float best = -std::numeric_limits<float>::infinity();
  int64_t place = 0, at = -1;
};

Plain pool(const Case& c, const std::vector<float>& x, int64_t plane, int64_t row, int64_t column, int64_t channel) {
  Plain found;
  for (int64_t i = 0; i < c.size[0]; ++i)
    for (int64_t k = 0; k < c.size[1]; ++k) {
      const int64_t down = row * c.window.strides[0] - c.window.pads[0] + i;
      const int64_t across = column * c.window.strides[1] - c.window.pads[1] + k;
      if (down < 0 || across < 0 || down >= c.image[0] || across >= c.image[1]) continue;
      const int64_t at = ((plane * c.image[0] + down) * c.image[1] + across) * c.block + channel;
      if (x[at] > found.best || found.at < 0) found = {x[at], i * c.size[1] + k, at};
    }
  return found;
}

class MaxPoolBlocks : public ::testing::TestWithParam<Case> {};

TEST_P(MaxPoolBlocks, FindsTheLargestAndHandsItsGradientBack) {
  const Case& c = GetParam();
  const PoolGeometry g = c.geometry();
  const int64_t channels = 2 * c.block;
  const ImageOrder order(Dims{3, channels, c.image[0], c.image[1]}, c.block);
  const std::vector<float> x = draw(3 * channels * count(c.image), 1);
  const std::vector<float> dy = draw(3 * channels * count(g.result), 2);
  std::vector<float> y(dy.size()), y_alone(dy.size()), dx(x.size(), 7.0F), wanted(x.size());
  std::vector<uint8_t> indices(dy.size());
  max_pool_blocks(g, order, x.data(), y.data(), indices.data());
  max_pool_blocks(g, order, x.data(), y_alone.data(), nullptr);
  max_pool_blocks_grad(g, order, dy.data(), indices.data(), dx.data());
  size_t i = 0;
  for (int64_t plane = 0; plane < order.planes(); ++plane)
    for (int64_t row = 0; row < g.result[0]; ++row)
      for (int64_t column = 0; column < g.result[1]; ++column)
        for (int64_t channel = 0; channel < c.block; ++channel, ++i) {
          const Plain found = pool(c, x, plane, row, column, channel);
          ASSERT_EQ(y[i], found.best);
          ASSERT_EQ(indices[i], found.place);
          wanted[static_cast<size_t>(found.at)] += dy[i];
        }
  EXPECT_EQ(y_alone, y);
  EXPECT_EQ(dx, wanted);
}

INSTANTIATE_TEST_SUITE_P(
    Geometries, MaxPoolBlocks,
    ::testing::Values(Case{{6, 8}, {2, 2}, Window::strided(2), 8}, Case{{7, 5}, {2, 2}, Window::strided(2), 16},
                      Case{{7, 8}, {3, 3}, Window::strided(2, 1), 8}, Case{{5, 4}, {3, 3}, Window::padded(1), 16},
                      Case{{8, 9}, {2, 2}, Window::strided(3), 8}, Case{{2, 2}, {3, 3}, Window::strided(3, 1), 8},
                      Case{{6, 7}, {2, 3}, {{1, 2}, {1, 0, 0, 2}, {1, 1}, 1}, 8}, Case{{5, 5}, {5, 5}, {}, 16}));

// At every place of the window, also before larger numbers.
TEST(MaxPoolBlocks, ANanWins) {
  const Case c{{2, 2}, {2, 2}, Window::strided(2), 8};
  const PoolGeometry g = c.geometry();
  for (int64_t place = 0; place < 4; ++place) {
    std::vector<float> x = draw(4 * c.block, 1);
    x[static_cast<size_t>(place * c.block + 3)] = NAN;
    std::vector<float> y(8);
    std::vector<uint8_t> indices(8);
    max_pool_blocks(g, ImageOrder(Dims{1, 8, 2, 2}, 8), x.data(), y.data(), indices.data());
    EXPECT_TRUE(std::isnan(y[3])) << place;
    EXPECT_EQ(indices[3], place);
    EXPECT_FALSE(std::isnan(y[2]));
  }
}

}  // namespace
}  // namespace plimsoll::ops
