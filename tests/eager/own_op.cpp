// A registered operator and a custom gradient in a training step and in eager code, against the engine's own operators.
#include <plimsoll/own_op.h>

#include <gtest/gtest.h>

#include <plimsoll/plimsoll.h>

namespace plimsoll {
namespace {

const OwnOp kSquare = register_op({
    .name = "own_square",
    .shape = [](const OpInputs& n) { return std::vector<TensorType>{n.types[0]}; },
    .kernel =
        [](const KernelCall& call) noexcept {
          const std::span<const float> x = call.in[0].as<float>();
          const std::span<float> y = call.out[0].as<float>();
          for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * x[i];
        },
    .gradient = [](const OpGradient& g) { return std::vector<Tensor>{g.dy[0] * g.x[0] * 2}; },
    .is_by_sample = true,
    .is_in_place = true,
});

const CustomGradient kSame = custom_gradient([](std::span<const Tensor> x) { return x[0] * 1.0; },
                                             [](const OpGradient& g) { return std::vector<Tensor>{g.dy[0] * 3.0}; });

// The weights after two steps in micro-batches of any size, and what was predicted.
std::vector<float> train(bool own, const Levers& levers) {
  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {Dim::batch(), 5});
  Tensor h = layers::dense(x, 7, {.kernel = Init::constant(0.1)}, "first");
  h = own ? kSquare({h}) : square(h);
  h = own ? kSame({h}) : h * 3.0 - stop_gradient(h * 2.0);
  const Tensor loss = reduce_mean(layers::dense(h, 1, {.kernel = Init::constant(0.2)}, "second"));
  const Updates updates = minimize(loss, Optimiser::sgd(0.1));
  Session session(graph, MemoryLine(), {.levers = levers});
  Step step = session.step({.fetch = {loss}, .update = updates, .batch = 6});
  std::vector<float> numbers(30);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 7) * 0.1F;
  for (int i = 0; i < 2; ++i) step({{x, numbers}});
  std::vector<float> kernel(35);
  session.get(graph.find("first/kernel"), kernel);
  return kernel;
}

TEST(OwnOp, TrainsAsTheEnginesOperatorDoes) {
  const std::vector<float> expected = train(false, {}), got = train(true, {});
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-6) << i;
  EXPECT_NE(got[0], 0.1F) << "nothing was trained";
  EXPECT_EQ(train(true, {.in_place = false, .recompute = false}), got);
}

TEST(OwnOp, RunsInEagerCodeAndOnATape) {
  Eager eager((MemoryLine()));
  const Tensor x = tensor({1.0F, -2.0F, 3.0F});
  Tape tape;
  tape.watch(x);
  const Tensor y = kSame({kSquare({x})});
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 4, 9}));
  EXPECT_EQ(tape.gradient(reduce_sum(y), x).to_vector<float>(), (std::vector<float>{6, -12, 18}));
}

}  // namespace
}  // namespace plimsoll
