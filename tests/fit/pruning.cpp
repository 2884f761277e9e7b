// Pruning while training: the masks of each step are those that tfmot's order of events gives, whatever the plan.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include <plimsoll/train.h>
#include "input/files.h"
#include "support/sanitizer.h"
#include "train/loop.h"

namespace plimsoll::fit {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryDirectory;

constexpr int64_t kSize = 8, kSamples = 32;

train::Spec spec_of(const TemporaryDirectory& files, const char* model) {
  std::vector<float> x(static_cast<size_t>(kSamples * kSize * kSize));
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * i % 977));
  std::vector<int32_t> y(static_cast<size_t>(kSamples));
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int32_t>(i * i % 3);
  files.write("x_train.npy", testing::npy("'<f4'", fmt::format("({}, 1, 8, 8)", kSamples), testing::raw(x)));
  files.write("y_train.npy", testing::npy("'<i4'", fmt::format("({},)", kSamples), testing::raw(y)));
  train::Spec spec;
  spec.model = model;
  spec.model_options.image_size = kSize;
  spec.model_options.channels = 1;
  spec.model_options.classes = 3;
  spec.batch = 8;
  spec.line = GiB;
  spec.threads = 1;
  spec.optimiser = Optimiser::sgd(0.05);
  spec.data = input::open_data({.path = files.path()}, find_model(spec.model, spec.model_options));
  return spec;
}

std::vector<float> values_of(train::Training& training, const std::string& name) {
  const auto bytes = training.session->peek(training.graph.find(name));
  std::vector<float> values(bytes.size() / sizeof(float));
  std::copy_n(bytes.data(), bytes.size(), reinterpret_cast<std::byte*>(values.data()));
  return values;
}

int64_t zeros_in(const std::vector<float>& values) { return std::ranges::count(values, 0.0F); }

// Counts the zeros of a weight before the forward pass of each step, and after the last step.
struct Watch : Callback {
  Watch(train::Training& watched, std::string weight) : training(watched), name_of_weight(std::move(weight)) {}
  std::string name() const override { return "watch"; }
  void before_training(FitRun&) override { zeros.push_back(zeros_in(values_of(training, name_of_weight))); }
  void after_step(FitRun&) override { zeros.push_back(zeros_in(values_of(training, name_of_weight))); }
  train::Training& training;
  std::string name_of_weight;
  std::vector<int64_t> zeros = {};  // [i]: before step i + 1
};

std::vector<int64_t> zeros_before_steps(const train::Spec& spec, const std::string& weight, int64_t steps) {
  const auto training = train::make_training(spec);
  const auto watch = std::make_shared<Watch>(*training, weight);
  train::TrainingLoop loop(*training, {.epochs = 1000, .steps = steps}, {watch});
  loop.open();
  loop.run();
  return watch->zeros;
}

class PruningTest : public ::testing::Test {
 protected:
  const TemporaryDirectory files;
};

// Steps are numbered from 1, as tfmot's are: its counter is 1 in the first forward pass.
TEST_F(PruningTest, MasksChangeAtTheStepsOfTheSchedule) {
  train::Spec spec = spec_of(files, "mlp");
  spec.pruning = Pruning{.from = 0.5, .to = 0.8, .begin = 3, .end = 9, .frequency = 2};
  const std::vector<int64_t> zeros = zeros_before_steps(spec, "mlp/fc2/kernel", 12);
  constexpr int64_t kCount = 512 * 512;
  for (int64_t step = 1; step <= 13; ++step) {
    const int64_t turn = step < 3 ? 0 : std::min<int64_t>(9, step - (step - 3) % 2);
    const double share = turn == 0 ? 0 : 0.8 - 0.3 * std::pow(1 - static_cast<double>(turn - 3) / 6, 3);
    EXPECT_NEAR(static_cast<double>(zeros[static_cast<size_t>(step - 1)]), share * kCount, 2) << step;
  }
}

TEST_F(PruningTest, TheFirstStepBeginsWithPrunedWeights) {
  train::Spec spec = spec_of(files, "mlp");
  spec.pruning = Pruning{.to = 0.75, .begin = 1};
  EXPECT_EQ(zeros_before_steps(spec, "mlp/head/kernel", 1)[0], 512 * 3 * 3 / 4);
  spec.pruning = Pruning{.two_of_four = true};
  const std::vector<int64_t> zeros = zeros_before_steps(spec, "mlp/head/kernel", 3);
  for (const int64_t count : zeros) EXPECT_EQ(count, 512 * 3 / 2);
}

TEST_F(PruningTest, StepsCountUpdates) {
  train::Spec spec = spec_of(files, "mlp");
  spec.pruning = Pruning{.to = 0.5, .begin = 3, .frequency = 1000};
  spec.accumulate = 2;
  const std::vector<int64_t> zeros = zeros_before_steps(spec, "mlp/head/kernel", 6);
  EXPECT_EQ(zeros, (std::vector<int64_t>{0, 0, 0, 0, 768, 768, 768}));
}

TEST_F(PruningTest, KernelsOfDenseAndConvolutionLayersAreChosen) {
  train::Spec spec = spec_of(files, "mobilenet_v2");
  spec.model_options = {};
  spec.data = {};
  spec.pruning = Pruning{};
  const auto training = train::make_training(spec);
  int64_t masks = 0;
  for (const graph::Variable& variable : training->graph.body().variables()) {
    const std::string& name = variable.stored->name;
    if (!name.starts_with("pruning/") || !name.ends_with("/mask")) continue;
    ++masks;
    EXPECT_THAT(name, HasSubstr("kernel"));
    EXPECT_EQ(name.find("depthwise"), std::string::npos) << name;
  }
  EXPECT_EQ(masks, 36);  // 52 convolutions less 17 depthwise ones, and one dense layer
  EXPECT_EQ(train::plan_facts(*training).mask_bytes, model::mask_bytes(training->graph));
  EXPECT_THAT(report::plan_text(train::plan_facts(*training)), HasSubstr("prunes  masks take "));
}

TEST_F(PruningTest, PatternsChooseLayers) {
  train::Spec spec = spec_of(files, "mlp");
  for (const char* pattern : {"fc*", "mlp/fc?/kernel", "*/fc1", "fc2"}) {
    spec.pruning = Pruning{.to = 0.5, .begin = 1, .layers = {pattern}};
    EXPECT_EQ(zeros_before_steps(spec, "mlp/head/kernel", 1)[0], 0) << pattern;
  }
  spec.pruning = Pruning{.to = 0.5, .begin = 1, .layers = {"fc1", "head"}};
  EXPECT_EQ(zeros_before_steps(spec, "mlp/head/kernel", 1)[0], 768);
}

TEST_F(PruningTest, FrozenLayersAreLeftAlone) {
  train::Spec spec = spec_of(files, "mlp");
  spec.freeze.patterns = {"mlp/fc*"};
  spec.pruning = Pruning{.to = 0.5, .begin = 1};
  EXPECT_EQ(zeros_before_steps(spec, "mlp/fc2/kernel", 1)[0], 0);
  EXPECT_EQ(zeros_before_steps(spec, "mlp/head/kernel", 1)[0], 768);
  spec.pruning->layers = {"fc1"};
  EXPECT_THROW(train::make_training(spec), Error);
}

TEST_F(PruningTest, WhatMakesNoSenseIsRefused) {
  const auto refusal = [](const char* text) -> std::string {
    try {
      Pruning::parse(text);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::Usage);
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal("from=0.5,to=0.8,begin=1000,end=10000"), "accepted");
  EXPECT_EQ(refusal("two-of-four,layers=a:b*"), "accepted");
  EXPECT_THAT(refusal("from=0.5,to=0.8,begin=10,end=5"), HasSubstr("ends at step 5 before it begins at step 10"));
  EXPECT_THAT(refusal("from=0.5,to=0.8"), HasSubstr("needs an end"));
  EXPECT_THAT(refusal("to=1"), HasSubstr("a share of 1 zeros"));
  EXPECT_THAT(refusal("to=1.5"), HasSubstr("a share of 1.5 zeros"));
  EXPECT_THAT(refusal("to=-0.5"), HasSubstr("a share of -0.5 zeros"));
  EXPECT_THAT(refusal("to=nan"), HasSubstr("a share of nan zeros"));
  EXPECT_THAT(refusal("frequency=0"), HasSubstr("a frequency of 0"));
  EXPECT_THAT(refusal("block=0x4"), HasSubstr("blocks of 0 x 4"));
  EXPECT_THAT(refusal("block=4"), HasSubstr("HEIGHTxWIDTH"));
  EXPECT_THAT(refusal("to=half"), HasSubstr("no number"));
  EXPECT_THAT(refusal("sparsity=0.5"), HasSubstr("'sparsity=0.5' is unknown"));
  train::Spec spec = spec_of(files, "mlp");
  spec.pruning = Pruning{.layers = {"conv*"}};
  EXPECT_THROW(train::make_training(spec), Error);
}

// Every plan prunes the same weights.
TEST_F(PruningTest, TheLineChangesNoBit) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  train::Spec spec = spec_of(files, "fashion");
  spec.pruning = Pruning{.from = 0.2, .to = 0.7, .begin = 2, .end = 8, .frequency = 2};
  const auto weights = [](const train::Spec& under) {
    const auto training = train::make_training(under);
    train::TrainingLoop loop(*training, {.epochs = 1000, .steps = 9}, {});
    loop.open();
    loop.run();
    std::vector<float> all;
    for (const graph::Variable& variable : training->graph.body().variables())
      if (variable.role() == VariableRole::Weight)
        for (const float value : values_of(*training, variable.stored->name)) all.push_back(value);
    return all;
  };
  const std::vector<float> roomy = weights(spec);
  spec.levers.micro_batch = false;  // micro-batches round differently
  train::Spec tight = spec;
  tight.line = 1;
  try {
    train::make_training(tight);
    FAIL();
  } catch (const DoesNotFit& e) {
    tight.line = e.refusal().smallest_line;
  }
  tight.threads = 2;
  EXPECT_EQ(weights(tight), roomy);
}

}  // namespace
}  // namespace plimsoll::fit
