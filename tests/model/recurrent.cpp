// Recurrent layers against PyTorch and Keras (bench/golden_recurrent.py), weights under our names.
#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <plimsoll/error.h>
#include <plimsoll/layers.h>
#include <plimsoll/ops.h>
#include <plimsoll/optimiser.h>
#include "graph/body.h"
#include "ops/evaluate.h"

namespace plimsoll::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json all_cases() {
  std::ifstream file(PLIMSOLL_GOLDEN_RECURRENT);
  return json::parse(file);
}

std::vector<float> numbers(const json& array) { return array["numbers"].get<std::vector<float>>(); }
Shape shape(const json& array) {
  Shape result;
  for (const auto& size : array["shape"]) result.push_back(size.get<int64_t>());
  return result;
}
std::vector<float> flat(const json& rows) {
  std::vector<float> all;
  for (const auto& row : rows)
    if (row.is_array())
      for (const auto& number : row) all.push_back(number.get<float>());
    else
      all.push_back(row.get<float>());
  return all;
}

template <class T>
Contents bytes_of(const std::vector<float>& given) {
  const std::vector<T> typed(given.begin(), given.end());
  const auto bytes = std::as_bytes(std::span(typed));
  return {bytes.begin(), bytes.end()};
}
Contents contents_of(const std::vector<float>& given, DType dtype) {
  if (dtype == DType::I32) return bytes_of<int32_t>(given);
  if (dtype == DType::Bool) return bytes_of<uint8_t>(given);
  return bytes_of<float>(given);
}

void expect_close(const std::vector<float>& got, const json& expected, const std::string& what) {
  const std::vector<float> wanted = numbers(expected);
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 2e-6) << what << ", element " << i;
}

class RecurrentLayer : public ::testing::TestWithParam<std::string> {};

TEST_P(RecurrentLayer, GivesTheNumbersOfPyTorchAndKeras) {
  const json golden = all_cases()[GetParam()];
  const json& wanted = golden["options"];
  Graph graph;
  std::vector<std::pair<Tensor, std::vector<float>>> values;
  const auto feed = [&](std::string_view name, DType dtype, const Shape& of, const std::vector<float>& given) {
    const Tensor tensor = graph.placeholder(name, dtype, of);
    values.emplace_back(tensor, given);
    return tensor;
  };
  const Tensor x = feed("x", DType::F32, shape(golden["x"]), numbers(golden["x"]));
  layers::Recurrent options;
  options.return_sequences = wanted["return_sequences"];
  options.bidirectional = wanted["bidirectional"];
  options.layers = wanted["layers"];
  options.zero_masked = wanted["zero_masked"];
  options.order = wanted["order"];
  options.reverse = wanted.value("reverse", false);
  options.activation = wanted.value("activation", "tanh");
  for (const auto& state : golden["first"])
    options.state.push_back(
        feed("state" + std::to_string(options.state.size()), DType::F32, shape(state), numbers(state)));
  if (!golden["lengths"].empty()) options.lengths = feed("lengths", DType::I32, {x.dim(0)}, flat(golden["lengths"]));
  if (!golden["mask"].empty()) options.mask = feed("mask", DType::Bool, {x.dim(0), x.dim(1)}, flat(golden["mask"]));
  constexpr int64_t kUnits = 3;
  const layers::RecurrentOutput out = golden["layer"] == "lstm"  ? layers::lstm(x, kUnits, options, "net")
                                      : golden["layer"] == "gru" ? layers::gru(x, kUnits, options, "net")
                                                                 : layers::simple_rnn(x, kUnits, options, "net");
  const Tensor seed = feed("seed", DType::F32, out.output.shape(), numbers(golden["seed"]));
  std::vector<Tensor> wrt;
  std::vector<json> expected;
  for (const auto& [name, slope] : golden["gradients"].items()) {
    wrt.push_back(name == "x" ? x : graph.find("net/" + name));
    expected.push_back(slope);
  }
  const std::vector<Gradient> slopes = gradients(out.output, wrt, seed);
  ASSERT_EQ(graph.body().variables().size(), golden["weights"].size());
  Evaluator evaluator(graph, 1);
  for (const auto& [name, weight] : golden["weights"].items()) {
    const Tensor variable = graph.find("net/" + name);
    ASSERT_EQ(to_string(variable.shape()), to_string(shape(weight))) << name;
    evaluator.set_floats(variable.id(), numbers(weight));
  }
  for (const auto& [tensor, given] : values) evaluator.set(tensor.id(), contents_of(given, tensor.dtype()));
  evaluator.run();
  expect_close(evaluator.floats(out.output.id()), golden["output"], "output");
  for (size_t i = 0; i < golden["last"].size(); ++i)
    expect_close(evaluator.floats(out.state[i].id()), golden["last"][i], "state " + std::to_string(i));
  for (size_t i = 0; i < wrt.size(); ++i)
    expect_close(evaluator.floats(slopes[i].value.id()), expected[i], std::string(wrt[i].name()));
}

std::vector<std::string> names() {
  const json cases = all_cases();
  std::vector<std::string> all;
  for (const auto& [name, golden] : cases.items()) all.push_back(name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Model, RecurrentLayer, ::testing::ValuesIn(names()), [](const auto& info) {
  std::string name = info.param;
  std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return name;
});

TEST(Recurrent, MakesWeightsInScopesOfLayersAndDirections) {
  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {Dim::batch(), 5, 4});
  const auto [output, state] = layers::lstm(x, 3, {.return_sequences = true, .bidirectional = true, .layers = 2});
  EXPECT_EQ(to_string(output.type()), "f32[B,5,6]");
  EXPECT_EQ(state.size(), 8U);
  EXPECT_EQ(to_string(state[7].type()), "f32[B,3]");
  EXPECT_EQ(to_string(graph.find("lstm/layer_1/backward/recurrent_kernel").type()), "f32[3,12]");
  EXPECT_EQ(to_string(graph.find("lstm/layer_1/forward/kernel").type()), "f32[6,12]");
  const Tensor last = layers::gru(8, {.merge = "sum"}, "second")(output, true);
  EXPECT_EQ(to_string(last.type()), "f32[B,8]");
  EXPECT_EQ(to_string(graph.find("second/recurrent_bias").type()), "f32[24]");
}

TEST(Recurrent, RefusesWhatDoesNotFit) {
  Graph graph;
  const Tensor x = graph.placeholder<float>("x", {Dim::batch(), 5, 4});
  const auto refusal = [&](Tensor from, int64_t units, const layers::Recurrent& options) {
    try {
      layers::lstm(from, units, options, "net");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(refusal(reshape(x, {Dim::batch(), 20}), 3, {}), HasSubstr("must be [batch, positions, width]"));
  EXPECT_THAT(refusal(x, 0, {}), HasSubstr("units must be positive"));
  EXPECT_THAT(refusal(x, 3, {.state = {x}}), HasSubstr("1 first states are given, but it has 2"));
  EXPECT_THAT(refusal(x, 3, {.reverse = true, .bidirectional = true}), HasSubstr("goes both ways"));
  EXPECT_THAT(refusal(x, 3, {.order = "ifg"}), HasSubstr("the order of gates is 'ifg'"));
  const Tensor lengths = graph.placeholder("lengths", DType::I64, {Dim::batch()});
  EXPECT_THAT(refusal(x, 3, {.mask = lengths, .lengths = lengths}), HasSubstr("give one of both"));
}

}  // namespace
}  // namespace plimsoll::testing
