// Batch norm over ranks, alone: a rank that has all samples gets what batch_norm computes.
#include <array>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/optimiser.h>
#include "autodiff/gradients.h"
#include "ops/draw.h"
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace plimsoll::testing {
namespace {

using ::testing::Each;
using ::testing::FloatNear;
using ::testing::Pointwise;

constexpr int64_t kChannels = 6, kBatch = 5;

// Result, mean, variance and the gradients of x, gamma and beta.
using Numbers = std::array<std::vector<float>, 6>;

Numbers run_norm(bool is_over_ranks) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), kChannels, 3, 3});
  const Tensor dy = graph.placeholder("dy", DType::F32, x.shape());
  const Tensor gamma = graph.placeholder("gamma", DType::F32, {kChannels});
  const Tensor beta = graph.placeholder("beta", DType::F32, {kChannels});
  const Tensor turn = graph.variable("turn", DType::F32, {64}, Init::zeros());
  std::vector<Tensor> y;
  if (is_over_ranks) {
    y = ops::batch_norm_over_ranks(x, gamma, beta, turn, 1e-3);
  } else {
    const Outputs out = graph::apply(*ops::find_op("batch_norm"), {x, gamma, beta}, {{"epsilon", 1e-3}});
    y = {out[0], out[1], out[2]};
  }
  const std::vector<Gradient> grads = gradients(y[0], std::vector{x, gamma, beta}, dy);
  Evaluator evaluator(graph, kBatch);
  const int64_t count = kBatch * kChannels * 9;
  std::vector<float> numbers = draw(count, 1);
  for (float& number : numbers) number += 3;
  evaluator.set_floats(x.id(), numbers);
  evaluator.set_floats(dy.id(), draw(count, 2));
  evaluator.set_floats(gamma.id(), {1, 2, 3, 4, 0.5, -1});
  evaluator.set_floats(beta.id(), {4, 3, 2, 1, 0, 1});
  evaluator.set_floats(turn.id(), std::vector<float>(64));
  evaluator.run();
  return {evaluator.floats(y[0].id()),           evaluator.floats(y[1].id()),
          evaluator.floats(y[2].id()),           evaluator.floats(grads[0].value.id()),
          evaluator.floats(grads[1].value.id()), evaluator.floats(grads[2].value.id())};
}

TEST(SynchronisedNorm, AloneIsBatchNorm) {
  const Numbers expected = run_norm(false), found = run_norm(true);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_THAT(found[i], Pointwise(FloatNear(2e-5F), expected[i])) << i;
}

// A rank without samples of its own computes with a sample that must not count.
TEST(SynchronisedNorm, SamplesThatDoNotCountLeaveNothingInTheSums) {
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), kChannels});
  const Tensor moments = graph::apply(*ops::find_op("batch_norm_moments"), {x});
  const Tensor mean = graph.placeholder("mean", DType::F32, {kChannels});
  const Outputs products = graph::apply(*ops::find_op("batch_norm_products"), {x, x, mean, mean});
  Evaluator evaluator(graph, 1);
  evaluator.state.counts_samples = false;
  evaluator.set_floats(x.id(), draw(kChannels, 1));
  evaluator.set_floats(mean.id(), std::vector<float>(kChannels, 1));
  evaluator.run();
  EXPECT_THAT(evaluator.floats(moments.id()), Each(0.0F));
  EXPECT_THAT(evaluator.floats(products[0].id()), Each(0.0F));
}

}  // namespace
}  // namespace plimsoll::testing
