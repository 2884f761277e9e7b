// Adafactor against the formulas that Keras publishes, in double, with filters in the order that Keras has them in.
#include <cmath>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include <plimsoll/optimiser.h>
#include "base/random.h"
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace plimsoll::testing {
namespace {

using Numbers = std::vector<double>;

double root_mean_square(const Numbers& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0) / static_cast<double>(x.size()));
}

// keras.optimizers.Adafactor on one variable whose last two dimensions are factored, the others stacked.
struct Reference {
  size_t stacks, rows, columns;  // rows = 0: a vector of `columns`, not factored
  Numbers w;
  Numbers r = Numbers(stacks * rows), c = Numbers(stacks * columns), v = Numbers(columns);

  void step(const Optimiser& o, const Numbers& g, int t) {
    for (double& x : w) x -= x * o.weight_decay * o.learning_rate;
    const double beta = 1 - std::pow(t, o.get("beta2_decay"));
    const double rate = o.get("relative_step") ? std::min(o.learning_rate, 1 / std::sqrt(t)) : o.learning_rate;
    const double alpha = std::max(o.get("epsilon2"), root_mean_square(w)) * rate;
    Numbers u(w.size());
    if (rows == 0) {
      for (size_t i = 0; i < w.size(); ++i) {
        v[i] = beta * v[i] + (1 - beta) * (g[i] * g[i] + o.get("epsilon1"));
        u[i] = g[i] / std::sqrt(v[i]);
      }
    }
    for (size_t s = 0; s < stacks && rows > 0; ++s) {
      const auto square = [&](size_t i, size_t j) {
        const double x = g[(s * rows + i) * columns + j];
        return x * x + o.get("epsilon1");
      };
      for (size_t i = 0; i < rows; ++i) {
        double mean = 0;
        for (size_t j = 0; j < columns; ++j) mean += square(i, j) / static_cast<double>(columns);
        r[s * rows + i] = beta * r[s * rows + i] + (1 - beta) * mean;
      }
      for (size_t j = 0; j < columns; ++j) {
        double mean = 0;
        for (size_t i = 0; i < rows; ++i) mean += square(i, j) / static_cast<double>(rows);
        c[s * columns + j] = beta * c[s * columns + j] + (1 - beta) * mean;
      }
      double mean_r = 0;
      for (size_t i = 0; i < rows; ++i) mean_r += r[s * rows + i] / static_cast<double>(rows);
      for (size_t i = 0; i < rows; ++i)
        for (size_t j = 0; j < columns; ++j) {
          const size_t at = (s * rows + i) * columns + j;
          u[at] = g[at] / std::sqrt(r[s * rows + i] / mean_r * c[s * columns + j]);
        }
    }
    const double most = std::max(1.0, root_mean_square(u) / o.get("clip_threshold"));
    for (size_t i = 0; i < w.size(); ++i) w[i] -= alpha * u[i] / most;
  }
};

struct Case {
  std::string name;
  Shape shape;
  size_t stacks, rows, columns;
  Optimiser optimiser = Optimiser::adafactor(0.05);
};

std::vector<Case> cases() {
  std::vector<Case> all{
      {"matrix", {5, 7}, 1, 5, 7},        {"wide", {3, 700}, 1, 3, 700}, {"stack", {2, 3, 4}, 2, 3, 4},
      {"filter", {4, 3, 2, 5}, 10, 3, 4},  // [outputs, inputs, h, w] is [h, w, inputs, outputs] there
      {"vector", {9}, 1, 0, 9},           {"scalar", {}, 1, 0, 1}};
  Case other{"settings", {6, 5}, 1, 6, 5};
  other.optimiser.set("beta2_decay", -0.5);
  other.optimiser.set("epsilon1", 1e-3);
  other.optimiser.set("epsilon2", 2);
  other.optimiser.set("clip_threshold", 0.3);
  other.optimiser.weight_decay = 0.1;
  other.optimiser.learning_rate = 0.9;  // above 1 / sqrt(t) from step 2 on
  all.push_back(other);
  other.name = "absolute_step";
  other.optimiser.set("relative_step", false);
  all.push_back(other);
  return all;
}

class AdafactorTest : public ::testing::TestWithParam<Case> {};

TEST_P(AdafactorTest, FollowsTheFormulas) {
  const Case& c = GetParam();
  Graph graph;
  const Tensor w = graph.variable("w", DType::F32, c.shape, Init::zeros());
  const Tensor g = graph.placeholder("g", DType::F32, c.shape);
  const Updates updates = minimize(reduce_sum(mul(w, g)), c.optimiser);
  const auto count = static_cast<size_t>(element_count(c.shape).fixed());
  // The index that element i has in Keras' order.
  const auto there = [&](size_t i) {
    if (c.shape.rank() != 4) return i;
    const auto size = [&](int axis) { return static_cast<size_t>(c.shape[axis].fixed()); };
    const size_t x = i % size(3), y = i / size(3) % size(2), in = i / size(3) / size(2) % size(1);
    const size_t out = i / size(3) / size(2) / size(1);
    return ((y * size(3) + x) * size(1) + in) * size(0) + out;
  };
  Evaluator evaluator(graph, 1);
  for (const graph::Variable& variable : graph.body().variables()) {
    const Tensor tensor(graph, variable.value);
    if (tensor.dtype() == DType::I64)
      evaluator.set(tensor.id(), Contents(sizeof(int64_t)));
    else
      evaluator.set_floats(tensor.id(), std::vector<float>(static_cast<size_t>(element_count(tensor.shape()).fixed())));
  }
  evaluator.set_floats(updates.learning_rate.id(), {static_cast<float>(c.optimiser.learning_rate)});
  const auto draw = [&](uint64_t seed) {
    std::vector<float> numbers(count);
    for (size_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(2 * unit_real(mix_bits(seed, i)) - 1);
    return numbers;
  };
  const auto to_keras = [&](const std::vector<float>& numbers) {
    Numbers moved(count);
    for (size_t i = 0; i < count; ++i) moved[there(i)] = static_cast<double>(numbers[i]);
    return moved;
  };
  evaluator.set_floats(w.id(), draw(1));
  Reference reference{c.stacks, c.rows, c.columns, to_keras(draw(1))};
  for (int t = 1; t <= 5; ++t) {
    const std::vector<float> gradient = draw(static_cast<uint64_t>(10 + t));
    evaluator.set_floats(g.id(), gradient);
    evaluator.run();
    reference.step(c.optimiser, to_keras(gradient), t);
    const std::vector<float> now = evaluator.floats(w.id());
    for (size_t i = 0; i < count; ++i) ASSERT_NEAR(now[i], reference.w[there(i)], 2e-5) << "step " << t << ", " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, AdafactorTest, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST(Adafactor, StateOfAMatrixIsItsRowsAndColumns) {
  Graph graph;
  const Tensor w = graph.variable("w", DType::F32, {300, 400}, Init::zeros());
  minimize(reduce_sum(w), Optimiser::adafactor());
  EXPECT_EQ(graph.find("optimiser/w/r").shape(), Shape{300});
  EXPECT_EQ(graph.find("optimiser/w/c").shape(), Shape{400});
  EXPECT_FALSE(graph.has_value("optimiser/w/v"));
}

TEST(Adafactor, ARowSparseGradientIsMadeDense) {
  Graph graph;
  const Tensor table = graph.variable("table", DType::F32, {6, 7}, Init::zeros());
  const Tensor rows = graph.placeholder("rows", DType::I32, {Dim::batch()});
  EXPECT_NO_THROW(minimize(reduce_sum(gather(table, rows)), Optimiser::adafactor()));
}

TEST(Optimiser, StateBitsThatItCanNotHaveAreRefused) {
  const auto refuse = [](Optimiser optimiser, int bits) -> std::string {
    Graph graph;
    const Tensor w = graph.variable("w", DType::F32, {3}, Init::zeros());
    optimiser.state_bits = bits;
    try {
      minimize(reduce_sum(w), optimiser);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(refuse(Optimiser::adam(), 12), ::testing::HasSubstr("state_bits must be 32, 16 or 8 but is 12"));
  EXPECT_THAT(refuse(Optimiser::lion(), 8), ::testing::HasSubstr("only adam keeps its state in 8 bits"));
  EXPECT_THAT(refuse(Optimiser::adafactor(), 16), ::testing::HasSubstr("adafactor keeps its state"));
  EXPECT_EQ(refuse(Optimiser::adam(), 8), "");
  EXPECT_EQ(refuse(Optimiser::lion(), 16), "");
  EXPECT_EQ(refuse(Optimiser::sgd(), 8), "") << "there is no state";
}

}  // namespace
}  // namespace plimsoll::testing
