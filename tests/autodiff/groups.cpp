// What an optimiser does differently for some weights: decay, rates, regularisers, constraints, averages.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include <plimsoll/optimiser.h>
#include "autodiff/treatment.h"
#include "graph/body.h"
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace plimsoll::testing {
namespace {

using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using Floats = std::vector<float>;

// Two weights of a net whose gradients are fed.
struct Net {
  Graph graph;
  Tensor kernel = graph.variable("net/dense/kernel", DType::F32, {2, 2}, Init::zeros());
  Tensor bias = graph.variable("net/dense/bias", DType::F32, {2}, Init::zeros());
  Tensor kernel_gradient = graph.placeholder("kernel_gradient", DType::F32, {2, 2});
  Tensor bias_gradient = graph.placeholder("bias_gradient", DType::F32, {2});

  Updates apply(const Optimiser& optimiser) {
    return apply_gradients(optimiser, std::vector<Gradient>{{kernel_gradient, {}}, {bias_gradient, {}}},
                           std::vector{kernel, bias});
  }
};

// The weights after so many steps with these gradients, from kernel {1, 2, 3, 4} and bias {1, -1}.
struct After {
  Floats kernel, bias;
};
After run(Net& net, const Optimiser& optimiser, int steps = 1, const Floats& gradient = {1, 1, 1, 1}) {
  net.apply(optimiser);
  Evaluator evaluator(net.graph, 1);
  for (const graph::Variable& variable : net.graph.body().variables()) {
    const Tensor tensor(net.graph, variable.value);
    const auto count = static_cast<size_t>(element_count(tensor.shape()).fixed());
    if (tensor.dtype() == DType::I64)
      evaluator.set(tensor.id(), Contents(sizeof(int64_t)));
    else
      evaluator.set_floats(tensor.id(), Floats(count, static_cast<float>(variable.stored->init.a)));
  }
  evaluator.set_floats(net.kernel.id(), {1, 2, 3, 4});
  evaluator.set_floats(net.bias.id(), {1, -1});
  evaluator.set_floats(net.kernel_gradient.id(), gradient);
  evaluator.set_floats(net.bias_gradient.id(), {1, 1});
  for (int i = 0; i < steps; ++i) evaluator.run();
  return {evaluator.floats(net.kernel.id()), evaluator.floats(net.bias.id())};
}

std::string refusal(const Optimiser& optimiser) {
  Net net;
  try {
    net.apply(optimiser);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(WeightGroups, NoDecayOnBiases) {
  Net net;
  const After after = run(net, Optimiser::sgd(0.1, {.weight_decay = 0.5, .no_decay = {"*/bias", "*norm*"}}));
  EXPECT_THAT(after.kernel, Pointwise(FloatNear(1e-6F), {0.85F, 1.8F, 2.75F, 3.7F})) << "w - 0.05 w - 0.1";
  EXPECT_THAT(after.bias, Pointwise(FloatNear(1e-6F), {0.9F, -1.1F})) << "w - 0.1";
}

TEST(WeightGroups, CoupledDecayIsAddedToTheGradient) {
  Net net;
  const After after = run(net, Optimiser::sgd(0.1, {.weight_decay = 0.5, .couples_decay = true}));
  EXPECT_THAT(after.kernel, Pointwise(FloatNear(1e-6F), {0.85F, 1.8F, 2.75F, 3.7F})) << "for sgd both are one";
  Net other;
  const After adam = run(other, Optimiser::adam(0.1, {.weight_decay = 0.5, .couples_decay = true}));
  EXPECT_NEAR(adam.kernel[3], 3.9F, 1e-5) << "the first step of adam has the size of the rate, whatever the gradient";
}

TEST(WeightGroups, HaveRatesAndDecayOfTheirOwn) {
  Net net;
  Optimiser optimiser = Optimiser::sgd(0.1);
  optimiser.groups = {{.patterns = {"*kernel"}, .rate_factor = 0.5, .weight_decay = 1.0}};
  const After after = run(net, optimiser);
  EXPECT_THAT(after.kernel, Pointwise(FloatNear(1e-6F), {0.9F, 1.85F, 2.8F, 3.75F})) << "w - 0.05 w - 0.05";
  EXPECT_THAT(after.bias, Pointwise(FloatNear(1e-6F), {0.9F, -1.1F}));
}

TEST(WeightGroups, PatternsThatMatchNothingAreRefused) {
  EXPECT_EQ(refusal(Optimiser::sgd(0.1, {.no_decay = {"*norm*", "*/bias"}})), "no error") << "one of them matches";
  EXPECT_THAT(refusal(Optimiser::sgd(0.1, {.no_decay = {"*norm*"}})), HasSubstr("no weight matches no_decay *norm*"));
  EXPECT_THAT(refusal(Optimiser::sgd(0.1, {.groups = {{.patterns = {"*head*"}}}})), HasSubstr("the group of *head*"));
  EXPECT_THAT(refusal(Optimiser::sgd(0.1, {.groups = {{.patterns = {}}}})), HasSubstr("a group has no patterns"));
  EXPECT_THAT(refusal(Optimiser::sgd(0.1, {.average = 1})), HasSubstr("average must be at least 0 and below 1"));
}

TEST(Regularisers, AddToTheGradientAndToTheLoss) {
  Net net;
  net.graph.regularise(net.kernel, {.l1 = 0.5, .l2 = 0.25});
  const Tensor penalty = autodiff::penalty(std::vector{net.kernel, net.bias});
  net.apply(Optimiser::sgd(0.1));
  Evaluator evaluator(net.graph, 1);
  for (const graph::Variable& variable : net.graph.body().variables())
    if (Tensor(net.graph, variable.value).dtype() == DType::I64)
      evaluator.set(variable.value, Contents(sizeof(int64_t)));
    else if (variable.role() == VariableRole::Optimiser)
      evaluator.set_floats(variable.value, {0.1F});
  evaluator.set_floats(net.kernel.id(), {1, -2, 3, 0});
  evaluator.set_floats(net.bias.id(), {1, -1});
  evaluator.set_floats(net.kernel_gradient.id(), {1, 1, 1, 1});
  evaluator.set_floats(net.bias_gradient.id(), {1, 1});
  evaluator.run();
  EXPECT_NEAR(evaluator.floats(penalty.id())[0], 0.5 * 6 + 0.25 * 14, 1e-5);
  // g + l1 sign(w) + 2 l2 w
  EXPECT_THAT(evaluator.floats(net.kernel.id()), Pointwise(FloatNear(1e-6F), {0.8F, -1.95F, 2.7F, -0.1F}));
  EXPECT_THAT(evaluator.floats(net.bias.id()), Pointwise(FloatNear(1e-6F), {0.9F, -1.1F}));
}

TEST(Constraints, HoldAfterEachUpdate) {
  const auto with = [](const Constraint& constraint) {
    Net net;
    net.graph.constrain(net.kernel, constraint);
    return run(net, Optimiser::sgd(1.0), 1, {2, 2, 0, 4}).kernel;  // {-1, 0, 3, 0}
  };
  EXPECT_THAT(with(Constraint::non_negative()), Pointwise(FloatNear(1e-5F), {0.0F, 0.0F, 3.0F, 0.0F}));
  const float length = std::sqrt(10.0F);  // of the first column
  EXPECT_THAT(with(Constraint::max_norm(2)), Pointwise(FloatNear(1e-5F), {-2 / length, 0.0F, 6 / length, 0.0F}));
  EXPECT_THAT(with(Constraint::max_norm(5)), Pointwise(FloatNear(1e-5F), {-1.0F, 0.0F, 3.0F, 0.0F}));
  EXPECT_THAT(with(Constraint::unit_norm()), Pointwise(FloatNear(1e-5F), {-1 / length, 0.0F, 3 / length, 0.0F}));
  EXPECT_THAT(with(Constraint::min_max_norm(4, 6)),
              Pointwise(FloatNear(1e-5F), {-4 / length, 0.0F, 12 / length, 0.0F}));
  Net net;
  EXPECT_THROW(net.graph.constrain(net.kernel, Constraint::min_max_norm(2, 1)), Error);
  EXPECT_THROW(net.graph.constrain(net.kernel_gradient, Constraint::non_negative()), Error);
  EXPECT_THROW(net.graph.regularise(net.kernel, {.l1 = -1}), Error);
}

TEST(Averages, AreSwappedWithTheWeights) {
  Net net;
  net.apply(Optimiser::sgd(0.1, {.average = 0.5}));
  const std::vector<NodeId> swap = swap_averages(net.graph);
  EXPECT_EQ(swap.size(), 2U);
  Graph plain;
  EXPECT_THROW(swap_averages(plain), Error);
}

TEST(Muon, MakesStepsOfMatricesAboutOrthogonal) {
  Net net;
  const After after = run(net, Optimiser::muon(0.1), 1, {1, 0, 0, 3});
  // Of a diagonal gradient: a diagonal step with both singular values near 1, times 0.2 sqrt(2) times the rate.
  const float first = 1 - after.kernel[0], second = 4 - after.kernel[3], size = 0.02F * std::sqrt(2.0F);
  EXPECT_NEAR(first / size, 1, 0.35);
  EXPECT_NEAR(second / size, 1, 0.35);
  EXPECT_NEAR(after.kernel[1], 2, 1e-5);
}

}  // namespace
}  // namespace plimsoll::testing
