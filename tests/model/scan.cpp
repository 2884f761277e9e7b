// Steps with a state: values, gradients and what is refused.
#include <plimsoll/scan.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include <plimsoll/optimiser.h>
#include "ops/evaluate.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;

TEST(ScanSteps, GiveWhatTheSameLayerGives) {
  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {Dim::batch(), 4, 3});
  const Tensor kernel = graph.placeholder<float>("kernel", {3, 5}), recurrent = graph.placeholder<float>("r", {5, 5});
  const Tensor first = graph.placeholder<float>("h", {Dim::batch(), 5});
  for (const bool reverse : {false, true}) {
    const ScanResult steps = scan_steps(x, {first},
                                        [&](const std::vector<Tensor>& state, Tensor step) {
                                          const Tensor h = tanh(matmul(step, kernel) + matmul(state[0], recurrent));
                                          return ScanStep{{h}, h};
                                        },
                                        {.axis = 1, .reverse = reverse});
    const std::vector<Tensor> layer = simple_rnn(x, kernel, recurrent, {}, first, {}, reverse);
    const std::vector<Tensor> wrt{x, kernel, recurrent, first};
    const Tensor loss = reduce_sum(steps.outputs * steps.outputs) + reduce_sum(steps.state[0]);
    const Tensor same = reduce_sum(layer[0] * layer[0]) + reduce_sum(layer[1]);
    const std::vector<Gradient> got = gradients(loss, wrt), expected = gradients(same, wrt);
    Evaluator evaluator(graph, 2);
    for (const Tensor& input : wrt)
      evaluator.set(input.id(), sample_contents(input.type(), std::string(input.name()), -1, 1, 2));
    evaluator.run();
    const auto expect_near = [&](const Tensor& a, const Tensor& b) {
      const std::vector<float> left = evaluator.floats(a.id()), right = evaluator.floats(b.id());
      ASSERT_EQ(left.size(), right.size());
      for (size_t i = 0; i < left.size(); ++i) ASSERT_NEAR(left[i], right[i], 1e-5) << a.name();
    };
    expect_near(steps.outputs, layer[0]);
    expect_near(steps.state[0], layer[1]);
    for (size_t i = 0; i < wrt.size(); ++i) expect_near(got[i].value, expected[i].value);
  }
}

TEST(ScanSteps, SumAlongTheFirstAxis) {
  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {3, 2});
  const Tensor total = scan(x, graph.placeholder<float>("s", {2}), [](Tensor s, Tensor row) { return s * 2.0 + row; });
  Evaluator evaluator(graph, 1);
  evaluator.set_floats(x.id(), {1, 2, 3, 4, 5, 6});
  evaluator.set_floats(graph.find("s").id(), {1, 0});
  evaluator.run();
  EXPECT_EQ(evaluator.floats(total.id()), (std::vector<float>{8 + 4 + 6 + 5, 8 + 8 + 6}));
}

TEST(ScanSteps, RefuseTheBatchAndStatesThatChange) {
  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {Dim::batch(), 3, 2});
  const Tensor state = graph.placeholder<float>("s", {Dim::batch(), 2});
  const auto refusal = [&](const Scan& options, const auto& function) {
    try {
      scan(x, state, function, options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const auto plain = [](Tensor s, Tensor step) { return s + step; };
  EXPECT_EQ(refusal({.axis = -2}, plain), "no error");
  EXPECT_THAT(refusal({}, plain), HasSubstr("is the batch"));
  EXPECT_THAT(refusal({.axis = 1}, [](Tensor s, Tensor) { return reduce_sum(s); }),
              HasSubstr("makes f32[] of state 0"));
  EXPECT_THAT(refusal({.axis = 1}, [](Tensor, Tensor) { return Tensor(); }), HasSubstr("makes nothing of state 0"));
}

}  // namespace
}  // namespace plimsoll::testing
