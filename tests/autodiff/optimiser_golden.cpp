// Twenty steps of every optimiser against those of PyTorch and Keras, which bench/golden_optimisers.py wrote down.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <plimsoll/error.h>
#include <plimsoll/optimiser.h>
#include "graph/body.h"
#include "ops/evaluate.h"
#include "ops/updates/rule.h"

namespace plimsoll::testing {
namespace {

// Of the largest weight. Both sides compute in f32, in another order.
constexpr double kTolerance = 5e-6;
// Newton-Schulz divides by small singular values: differences of the last bit grow.
constexpr double kToleranceOfMuon = 2e-4;

const nlohmann::json& stored() {
  static const nlohmann::json kStored = [] {
    std::ifstream file(PLIMSOLL_OPTIMISER_GOLDEN);
    return nlohmann::json::parse(file);
  }();
  return kStored;
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& [name, value] : stored()["cases"].items()) names.push_back(name);
  return names;
}

Optimiser optimiser_of(const nlohmann::json& of) {
  Optimiser optimiser = Optimiser::named(of["optimiser"].get<std::string>());
  for (const auto& [setting, value] : of["settings"].items()) {
    if (setting == "couples_decay")
      optimiser.couples_decay = true;
    else
      optimiser.set(setting, value.get<double>());
  }
  return optimiser;
}

class OptimiserGoldenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(OptimiserGoldenTest, EqualsTheOthersOverTwentySteps) {
  const nlohmann::json& golden = stored();
  const nlohmann::json& expected = golden["cases"][GetParam()];
  const Optimiser optimiser = optimiser_of(expected);
  Graph graph;
  std::vector<Tensor> weights;
  std::vector<Gradient> gradients;
  for (const auto& [name, shape] : golden["shapes"].items()) {
    const Shape of = Shape::from(shape.get<std::vector<int64_t>>());
    weights.push_back(graph.variable(name, DType::F32, of, Init::zeros()));
    gradients.push_back({graph.placeholder(name + "_gradient", DType::F32, of), {}});
  }
  const Updates updates = apply_gradients(optimiser, gradients, weights);
  Evaluator evaluator(graph, 1);
  for (const graph::Variable& variable : graph.body().variables()) {
    const Tensor tensor(graph, variable.value);
    const auto count = static_cast<size_t>(element_count(tensor.shape()).fixed());
    if (tensor.dtype() == DType::I64)
      evaluator.set(tensor.id(), Contents(sizeof(int64_t)));
    else
      evaluator.set_floats(tensor.id(), std::vector<float>(count, static_cast<float>(variable.stored->init.a)));
  }
  for (const Tensor& weight : weights)
    evaluator.set_floats(weight.id(), golden["start"][std::string(weight.name())].get<std::vector<float>>());
  for (int64_t step = 1; step <= 20; ++step) {
    for (size_t i = 0; i < weights.size(); ++i)
      evaluator.set_floats(
          gradients[i].value.id(),
          golden["gradients"][static_cast<size_t>(step - 1)][std::string(weights[i].name())].get<std::vector<float>>());
    evaluator.run();
    const nlohmann::json& kept = expected["weights"];
    if (!kept.contains(std::to_string(step))) continue;
    for (const Tensor& weight : weights) {
      const Tensor shown =
          optimiser.average > 0 ? graph.find("optimiser/" + std::string(weight.name()) + "/average") : weight;
      const std::vector<float> now = evaluator.floats(shown.id());
      const auto then = kept[std::to_string(step)][std::string(weight.name())].get<std::vector<float>>();
      ASSERT_EQ(now.size(), then.size());
      const double tolerance = optimiser.name() == "muon" ? kToleranceOfMuon : kTolerance;
      for (size_t i = 0; i < now.size(); ++i)
        ASSERT_NEAR(now[i], then[i], tolerance) << weight.name() << " after step " << step << ", element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, OptimiserGoldenTest, ::testing::ValuesIn(case_names()),
                         [](const auto& info) { return info.param; });

// A case for every optimiser of the list: one that is added without is found here.
TEST(OptimiserList, EveryOptimiserHasGoldenSteps) {
  for (const ops::OptimiserRule* rule : ops::all_rules()) {
    int cases = 0;
    for (const auto& [name, value] : stored()["cases"].items())
      cases += Optimiser::named(value["optimiser"].get<std::string>()).name() == rule->name ? 1 : 0;
    EXPECT_GT(cases, 0) << rule->name << ": add a case to bench/golden_optimisers.py";
  }
}

}  // namespace
}  // namespace plimsoll::testing
