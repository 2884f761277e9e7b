// Over several tiles, with edges in both directions, the fused loss equals product and cross-entropy apart, and so does
// the operator that makes the loss and its gradient in one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/optimiser.h>
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace plimsoll::testing {
namespace {

using namespace kernels;

class LinearCrossEntropy : public ::testing::TestWithParam<bool> {};

TEST_P(LinearCrossEntropy, EqualsItsParts) {
  const bool transposed = GetParam();
  constexpr int64_t kRows = 520, kWidth = 3, kClasses = 2100;
  Graph graph;
  const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), kWidth});
  const Tensor kernel =
      graph.placeholder("kernel", DType::F32, transposed ? Shape{kClasses, kWidth} : Shape{kWidth, kClasses});
  const Tensor labels = graph.placeholder("labels", DType::I32, {Dim::batch()});
  const std::vector<Tensor> wrt{x, kernel};
  const Tensor fused = linear_cross_entropy(x, kernel, labels, transposed);
  const Tensor apart = sparse_cross_entropy(matmul(x, kernel, false, transposed), labels);
  const std::vector<Gradient> fused_grads = gradients(fused, wrt);
  const std::vector<Gradient> apart_grads = gradients(apart, wrt);
  Attrs attrs{{"rows", Shape{Dim::batch()}}};
  if (transposed) attrs.set("transposed", int64_t{1});
  const Tensor slope = graph.placeholder("slope", DType::F32, {});
  const graph::Outputs at_once =
      graph::apply(*ops::find_op("linear_cross_entropy_with_grad"), {x, kernel, labels, slope}, attrs);
  Evaluator evaluator(graph, kRows);
  evaluator.set_floats(slope.id(), {1});
  evaluator.set(x.id(), sample_contents(x.type(), "x", -1, 1, kRows));
  evaluator.set(kernel.id(), sample_contents(kernel.type(), "kernel", -2, 2, kRows));
  evaluator.set(labels.id(), sample_contents(labels.type(), "labels", 0, kClasses, kRows));
  evaluator.run();
  using ::testing::FloatNear;
  using ::testing::Pointwise;
  EXPECT_NEAR(evaluator.floats(fused.id())[0], evaluator.floats(apart.id())[0], 1e-5);
  EXPECT_EQ(evaluator.floats(at_once[0].id()), evaluator.floats(fused.id()));
  for (size_t i = 0; i < wrt.size(); ++i) {
    EXPECT_THAT(evaluator.floats(fused_grads[i].value.id()),
                Pointwise(FloatNear(1e-6F), evaluator.floats(apart_grads[i].value.id())));
    EXPECT_EQ(evaluator.floats(at_once[static_cast<int>(i) + 1].id()), evaluator.floats(fused_grads[i].value.id()));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernel, LinearCrossEntropy, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "transposed" : "plain"; });

}  // namespace
}  // namespace plimsoll::testing
