// Losses and metrics against Keras and PyTorch, whose values bench/golden_losses.py wrote down.
#include <plimsoll/model.h>

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <plimsoll/ops.h>
#include <plimsoll/session.h>
#include "support/error_of.h"

namespace plimsoll {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

const nlohmann::json& stored() {
  static const nlohmann::json kStored = [] {
    std::ifstream file(PLIMSOLL_LOSS_GOLDEN);
    return nlohmann::json::parse(file);
  }();
  return kStored;
}

// One output and one target of the file, as placeholders and as what is fed.
struct Pair {
  Graph graph;
  Tensor output, target;
  std::vector<float> numbers, reals;
  std::vector<int64_t> classes;

  explicit Pair(const nlohmann::json& entry) {
    const auto place = [&](const char* key, Tensor& tensor, std::vector<float>& floats) {
      const nlohmann::json& data = stored()["data"][entry[key].get<std::string>()];
      Shape shape{Dim::batch()};
      for (size_t i = 1; i < data["shape"].size(); ++i) shape.push_back(data["shape"][i].get<int64_t>());
      const bool is_whole = data["whole"].get<bool>();
      tensor = graph.placeholder(key, is_whole ? DType::I64 : DType::F32, shape);
      for (const auto& number : data["numbers"])
        is_whole ? classes.push_back(number.get<int64_t>()) : floats.push_back(number.get<float>());
    };
    place("output", output, numbers);
    place("target", target, reals);
  }
  int64_t samples() const { return static_cast<int64_t>(numbers.size()) / element_count(output.shape()).count(); }
  // What the session gives for these tensors, one behind the other.
  std::vector<double> run(const std::vector<Tensor>& fetch) {
    MemoryLine line;
    Session session(graph, line);
    Step step = session.step({.fetch = fetch, .batch = samples()});
    std::vector<double> all;
    const Feed wanted = classes.empty() ? Feed(target, reals) : Feed(target, classes);
    for (const View& view : step({Feed(output, numbers), wanted}))
      for (const float number : view.floats()) all.push_back(static_cast<double>(number));
    return all;
  }
};

Loss loss_of(const std::string& name, const nlohmann::json& settings) {
  ClassLossOptions options;
  options.from_logits = settings.value("from_logits", 1) != 0;
  options.label_smoothing = settings.value("label_smoothing", 0.0);
  if (settings.contains("ignore")) options.ignore = settings["ignore"].get<int64_t>();
  if (name == "sparse_cross_entropy") return Loss::sparse_cross_entropy(options);
  if (name == "cross_entropy") return Loss::cross_entropy(options);
  if (name == "binary_cross_entropy") return Loss::binary_cross_entropy(options);
  if (name == "binary_focal") return Loss::binary_focal(2, {}, options);
  if (name == "focal") return Loss::focal(2, 0.25, options);
  if (name == "tversky") return Loss::tversky(settings["alpha"].get<double>(), settings["beta"].get<double>());
  return {name};
}

Metric metric_of(const std::string& name, const nlohmann::json& settings) {
  const double at = settings.value("at", 0.0);
  if (name == "precision_at_recall") return Metric::precision_at_recall(at);
  if (name == "recall_at_precision") return Metric::recall_at_precision(at);
  if (name == "sensitivity_at_specificity") return Metric::sensitivity_at_specificity(at);
  if (name == "specificity_at_sensitivity") return Metric::specificity_at_sensitivity(at);
  if (name == "mean_iou") return Metric::mean_iou(settings["classes"].get<int64_t>());
  return {name};
}

std::string test_name(const ::testing::TestParamInfo<nlohmann::json>& info) {
  return info.param["name"].get<std::string>() + "_" + std::to_string(info.index);
}

std::vector<nlohmann::json> entries(const char* kind) { return {stored()[kind].begin(), stored()[kind].end()}; }

class LossGoldenTest : public ::testing::TestWithParam<nlohmann::json> {};

TEST_P(LossGoldenTest, EqualsTheOthers) {
  const nlohmann::json& entry = GetParam();
  Pair pair(entry);
  const Loss loss = loss_of(entry["name"].get<std::string>(), entry["settings"]);
  const double expected = entry["value"].get<double>();
  const std::vector<double> got = pair.run({loss.mean(pair.output, pair.target)});
  EXPECT_NEAR(got.at(0), expected, 2e-5 * std::max(1.0, std::abs(expected)));
}

INSTANTIATE_TEST_SUITE_P(All, LossGoldenTest, ::testing::ValuesIn(entries("losses")), test_name);

class MetricGoldenTest : public ::testing::TestWithParam<nlohmann::json> {};

TEST_P(MetricGoldenTest, EqualsTheOthers) {
  const nlohmann::json& entry = GetParam();
  Pair pair(entry);
  const Metric metric = metric_of(entry["name"].get<std::string>(), entry["settings"]);
  const std::vector<double> sums = pair.run(metric.sums(pair.output, pair.target));
  const double expected = entry["value"].get<double>();
  EXPECT_NEAR(metric.value(sums, static_cast<double>(pair.samples())), expected,
              1e-4 * std::max(1.0, std::abs(expected)));
}

INSTANTIATE_TEST_SUITE_P(All, MetricGoldenTest, ::testing::ValuesIn(entries("metrics")), test_name);

TEST(LossValues, AreOneForEachSampleAndZeroWhereIgnored) {
  Graph graph;
  const Tensor logits = graph.placeholder<float>("logits", {Dim::batch(), 2});
  const Tensor labels = graph.placeholder<int64_t>("labels", {Dim::batch()});
  const Loss loss = Loss::sparse_cross_entropy(ClassLossOptions{.ignore = -100});
  const Tensor values = loss.values(logits, labels);
  EXPECT_EQ(values.shape(), Shape{Dim::batch()});
  MemoryLine line;
  Session session(graph, line);
  Step step = session.step({.fetch = {values, loss.mean(logits, labels)}, .batch = 3});
  const auto results =
      step({Feed(logits, std::vector<float>{0, 0, 5, 5, 0, 0}), Feed(labels, std::vector<int64_t>{0, -100, 1})});
  const std::span<const float> each = results[0].floats();
  EXPECT_NEAR(each[0], std::log(2.0F), 1e-6);
  EXPECT_EQ(each[1], 0);
  EXPECT_NEAR(results[1].item<float>(), std::log(2.0F), 1e-6) << "the mean is over the two that count";
}

TEST(LossValues, WeightsMayBeOneForEachOfThem) {
  Graph graph;
  const Tensor output = graph.placeholder<float>("output", {Dim::batch(), 2});
  const Tensor target = graph.placeholder<float>("target", {Dim::batch(), 2});
  const Tensor weights = graph.placeholder<float>("weights", {Dim::batch(), 2});
  const Tensor wrong = graph.placeholder<float>("wrong", {Dim::batch(), 5});
  EXPECT_THAT(error_of([&] { Loss::mae().mean(output, target, wrong); }), HasSubstr("give one for each sample"));
  MemoryLine line;
  Session session(graph, line);
  Step step = session.step({.fetch = {Loss::mae().mean(output, target, weights)}, .batch = 1});
  const std::vector<float> zeros{0, 0}, ones{1, 3}, by{2, 0.5F};
  EXPECT_NEAR(step({Feed(output, zeros), Feed(target, ones), Feed(weights, by)})[0].item<float>(), (2 + 1.5) / 2, 1e-6);
}

TEST(Losses, RefuseWhatMakesNoSense) {
  EXPECT_THAT(error_of([] { Loss::cross_entropy(ClassLossOptions{.ignore = 1}); }),
              HasSubstr("no class number to ignore"));
  EXPECT_THAT(error_of([] { Loss::contrastive(0); }), HasSubstr("a margin of 0 makes no sense"));
  EXPECT_THAT(error_of([] { Loss::generalized_cross_entropy(1); }), HasSubstr("between 0 and 1"));
  EXPECT_THAT(error_of([] { Loss("focus"); }), HasSubstr("there is no loss 'focus'"));
  EXPECT_THAT(error_of([] { Metric("acuracy"); }), HasSubstr("there is no metric 'acuracy'"));
  EXPECT_THAT(error_of([] { Metric::precision_at_recall(2); }), HasSubstr("give a number from 0 to 1"));
  EXPECT_THAT(error_of([] { Metric::mean_iou(1); }), HasSubstr("1 classes make no sense"));
  EXPECT_THAT(error_of([] { Metric::counts("positives"); }), HasSubstr("'positives' is unknown"));
}

TEST(Losses, KnowTheNamesOfOthers) {
  for (const char* name :
       {"SparseCategoricalCrossentropy", "MeanAbsolutePercentageError", "smooth_l1_loss", "KLD", "nll_loss"})
    EXPECT_NO_THROW(Loss{name}) << name;
  for (const char* name :
       {"SparseCategoricalAccuracy", "RootMeanSquaredError", "f1_score", "MeanSquaredLogarithmicError"})
    EXPECT_NO_THROW(Metric{name}) << name;
}

}  // namespace
}  // namespace plimsoll
