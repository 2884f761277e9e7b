// A variable has one layout in all steps of a session, whichever step chose it.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "ops/ops.h"
#include "session/engine.h"

namespace plimsoll::session {
namespace {

// Filters whose channels fill no block of any processor, so that they lie in padded blocks.
struct TwoSteps {
  Graph graph;
  Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), 10, 6, 6});
  Tensor first = graph.variable("first", DType::F32, {24, 10, 3, 3}, Init::zeros());
  Tensor second = graph.variable("second", DType::F32, {20, 24, 1, 1}, Init::zeros());
  Tensor sum = ops::reduce_sum(x, {1, 2, 3});
  Tensor y = ops::conv2d(ops::conv2d(x, first), second);
  std::vector<float> rows = std::vector<float>(4 * 10 * 6 * 6);

  TwoSteps() {
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = std::sin(static_cast<float>(i));
  }
  static std::vector<float> numbers_of(Tensor variable) {
    std::vector<float> numbers(static_cast<size_t>(element_count(at_batch(variable.type().shape, 1))));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::cos(static_cast<float>(i));
    return numbers;
  }
  Request request(Tensor fetch) const { return {{fetch}, {}, 4}; }
  // Sets the filters, gets them back, and computes y as the step of that number.
  std::vector<float> run(Engine& engine, size_t step) const {
    for (const Tensor& variable : {first, second}) {
      const std::vector<float> numbers = numbers_of(variable);
      const auto bytes = static_cast<Bytes>(numbers.size() * sizeof(float));
      engine.set(variable, numbers.data(), bytes);
      std::vector<float> got(numbers.size());
      engine.get(variable, got.data(), bytes);
      EXPECT_EQ(got, numbers) << variable.name();
    }
    const View view = engine.run_like(step, std::vector<Feed>{{x, rows}}).front();
    const auto* const numbers = static_cast<const float*>(view.data());
    return {numbers, numbers + element_count(view.dims)};
  }
};

TEST(Layouts, AreThoseOfTheStepThatUsesTheVariable) {
  TwoSteps steps;
  const MemoryLine line;
  Engine alone(steps.graph, line, {steps.request(steps.y)}, {});
  Engine both(steps.graph, line, {steps.request(steps.sum), steps.request(steps.y)}, {});
  EXPECT_EQ(steps.run(both, 1), steps.run(alone, 0));
}

}  // namespace
}  // namespace plimsoll::session
