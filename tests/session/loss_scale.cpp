// Loss scaling: the same numbers where all is finite, a step that changes nothing but the scale where something is not.
#include <cmath>
#include <limits>
#include <map>

#include <gtest/gtest.h>

#include <plimsoll/plimsoll.h>

namespace plimsoll {
namespace {

constexpr int64_t kBatch = 4;

struct Net {
  Graph graph;
  Tensor x = graph.placeholder<float>("x", {Dim::batch(), 8});
  Tensor y = graph.placeholder<float>("y", {Dim::batch(), 1});
  Tensor loss;
  Net() {
    const Tensor h = layers::batch_norm(layers::dense(x, 16), true);
    loss = mean_squared_error(layers::dense(relu(h), 1), y);
  }
};

using Variables = std::map<std::string, std::vector<double>>;

Variables read(Session& session, Graph& graph) {
  Variables all;
  for (const StoredVariable& variable : graph.store()->variables()) {
    const auto count = static_cast<size_t>(element_count(variable.type.shape).fixed());
    std::vector<double>& numbers = all[variable.name];
    if (variable.type.dtype == DType::I64) {
      std::vector<int64_t> now(count);
      session.get(graph.find(variable.name), now);
      numbers.assign(now.begin(), now.end());
    } else {
      std::vector<float> now(count);
      session.get(graph.find(variable.name), now);
      numbers.assign(now.begin(), now.end());
    }
  }
  return all;
}

Variables without_scale(Variables variables) {
  variables.erase("optimiser/loss_scale");
  variables.erase("optimiser/finite_steps");
  return variables;
}

std::vector<float> numbers(size_t count, int seed) {
  std::vector<float> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = std::sin(static_cast<float>(static_cast<int>(i) * 7 + seed));
  return all;
}

Optimiser scaled(Optimiser optimiser, int64_t growth_steps = 2000) {
  optimiser.scales_loss = true;
  optimiser.scale_growth_steps = growth_steps;
  return optimiser;
}

struct Trained {
  Net net;
  Session session{net.graph, MemoryLine()};
  Step step;
  explicit Trained(const Optimiser& optimiser)
      : step(session.step({.fetch = {net.loss}, .update = minimize(net.loss, optimiser), .batch = kBatch})) {}
  float run(int seed, float bad = 0) {
    std::vector<float> x = numbers(kBatch * 8, seed);
    if (bad != 0) x[5] = bad;
    const std::vector<float> y = numbers(kBatch, seed + 1);
    return step({{net.x, x}, {net.y, y}})[0].item<float>();
  }
  Variables variables() { return read(session, net.graph); }
};

TEST(LossScale, FiniteStepsAreTheSameBits) {
  for (Optimiser optimiser : {Optimiser::adam(), Optimiser::sgd(0.1, 0.9)})
    for (const double clip : {0.0, 0.5}) {
      optimiser.global_clip_norm = clip;
      Trained plain(optimiser), with_scale(scaled(optimiser));
      for (int i = 0; i < 4; ++i) EXPECT_EQ(plain.run(i), with_scale.run(i));
      // A power of two changes no mantissa; the clipping factor is computed in another order.
      if (clip == 0) {
        EXPECT_EQ(without_scale(with_scale.variables()), plain.variables());
      }
      EXPECT_EQ(with_scale.variables()["optimiser/loss_scale"], std::vector<double>{32768});
      EXPECT_EQ(with_scale.variables()["optimiser/finite_steps"], std::vector<double>{4});
    }
}

TEST(LossScale, AStepThatIsNotFiniteChangesTheScaleAlone) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    Trained trained(scaled(Optimiser::adam()));
    trained.run(0);
    const Variables before = trained.variables();
    trained.run(1, bad);
    const Variables after = trained.variables();
    EXPECT_EQ(without_scale(after), without_scale(before)) << "weights, state, counter and statistics";
    EXPECT_EQ(after.at("optimiser/loss_scale"), std::vector<double>{16384});
    EXPECT_EQ(after.at("optimiser/finite_steps"), std::vector<double>{0});
    trained.run(2);
    EXPECT_NE(without_scale(trained.variables()), without_scale(before)) << "training goes on";
    EXPECT_EQ(trained.variables()["optimiser/step"], std::vector<double>{2});
  }
}

TEST(LossScale, AScaleThatOverflowsFallsUntilItDoesNot) {
  Optimiser optimiser = scaled(Optimiser::sgd(0.01));
  optimiser.initial_loss_scale = 0x1p127;
  Trained trained(optimiser);
  int steps = 0;
  while (trained.variables()["optimiser/step"][0] == 0 && steps < 20) trained.run(steps++);
  EXPECT_GT(steps, 1) << "the first step must not fit";
  EXPECT_LT(steps, 20);
  EXPECT_EQ(trained.variables()["optimiser/loss_scale"][0], std::ldexp(1.0, 127 - (steps - 1)));
}

TEST(LossScale, DoublesAfterEnoughFiniteStepsInARow) {
  Trained trained(scaled(Optimiser::sgd(0.01), 3));
  const auto scale = [&] { return trained.variables()["optimiser/loss_scale"][0]; };
  for (int i = 0; i < 2; ++i) trained.run(i);
  EXPECT_EQ(scale(), 32768);
  trained.run(2, INFINITY);
  for (int i = 0; i < 2; ++i) trained.run(i);
  EXPECT_EQ(scale(), 16384) << "the count starts again";
  trained.run(3);
  EXPECT_EQ(scale(), 32768);
}

TEST(LossScale, ABadBatchLeavesItsGroupOut) {
  Net net;
  Session session(net.graph, MemoryLine());
  const Accumulation accumulation = accumulate(net.loss, scaled(Optimiser::adam()));
  Step add = session.step({.fetch = {net.loss}, .update = accumulation.add, .batch = kBatch});
  Step apply = session.step({.update = accumulation.apply});
  const auto run = [&](int seed, float bad) {
    std::vector<float> x = numbers(kBatch * 8, seed);
    if (bad != 0) x[5] = bad;
    const std::vector<float> y = numbers(kBatch, seed + 1);
    add({{net.x, x}, {net.y, y}});
  };
  session.open();
  const Variables before = read(session, net.graph);
  run(0, INFINITY);
  const Variables added = read(session, net.graph);
  for (const auto& [name, value] : added) {
    if (net.graph.store()->find(name)->role == VariableRole::Optimiser) continue;
    EXPECT_EQ(value, before.at(name)) << name;
  }
  apply({});
  Variables after = read(session, net.graph);
  EXPECT_EQ(without_scale(after), without_scale(before));
  EXPECT_EQ(after["optimiser/loss_scale"], std::vector<double>{16384});
  run(1, 0);
  apply({});
  after = read(session, net.graph);
  EXPECT_EQ(after["optimiser/step"], std::vector<double>{1});
  EXPECT_EQ(after["optimiser/finite_steps"], std::vector<double>{1});
  for (const auto& [name, value] : after)
    for (const double number : value) EXPECT_TRUE(std::isfinite(number)) << name;
}

}  // namespace
}  // namespace plimsoll
