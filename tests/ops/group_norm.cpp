#include <array>
#include <vector>

#include <gtest/gtest.h>

#include <plimsoll/optimiser.h>
#include "autodiff/gradients.h"
#include "ops/draw.h"
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace plimsoll::testing {
namespace {

// Results larger than the caches are written past them, where whole vectors can be; a sample has the same bits alone.
TEST(GroupNorm, LargeResultsAreThoseOfTheirSamples) {
  constexpr int64_t kChannels = 4;
  for (const int64_t side : {1024, 1031}) {
    const int64_t sample = kChannels * side * side;
    const std::vector<float> x = draw(2 * sample, 1), dy = draw(2 * sample, 2);
    const auto run = [&](int64_t first, int64_t last) {
      Graph graph;
      const Tensor in = graph.placeholder("x", DType::F32, {last - first, kChannels, side, side});
      const Tensor gamma = graph.placeholder("gamma", DType::F32, {kChannels});
      const Tensor beta = graph.placeholder("beta", DType::F32, {kChannels});
      const Tensor slopes = graph.placeholder("dy", DType::F32, in.shape());
      const Tensor y = group_norm(in, gamma, beta, 2);
      const Tensor dx = autodiff::densify(gradients(y, std::vector{in}, slopes)[0], in.shape());
      Evaluator evaluator(graph, 1);
      evaluator.set_floats(in.id(), {x.begin() + first * sample, x.begin() + last * sample});
      evaluator.set_floats(slopes.id(), {dy.begin() + first * sample, dy.begin() + last * sample});
      evaluator.set_floats(gamma.id(), {1, 2, 3, 4});
      evaluator.set_floats(beta.id(), {4, 3, 2, 1});
      evaluator.run();
      return std::array{evaluator.floats(y.id()), evaluator.floats(dx.id())};
    };
    std::array<std::vector<float>, 2> apart = run(0, 1);
    const auto second = run(1, 2);
    const auto together = run(0, 2);
    for (size_t i = 0; i < apart.size(); ++i) {
      apart[i].insert(apart[i].end(), second[i].begin(), second[i].end());
      EXPECT_TRUE(together[i] == apart[i]) << side << (i == 0 ? " result" : " gradient");
    }
  }
}

}  // namespace
}  // namespace plimsoll::testing
