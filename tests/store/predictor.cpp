// Stored models that answer, with batch norms folded into the weights or not.
#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/plimsoll.h>
#include "store/folded_norms.h"
#include "store/model_file.h"
#include "support/error_of.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSide = 9, kChannels = 3, kSamples = 24, kClasses = 4;
constexpr double kTolerance = 1e-5;  // of the largest answer: what docs/models.md says about folding

struct Pictures {
  Pictures() {
    for (int64_t i = 0; i < kSamples * kChannels * kSide * kSide; ++i)
      x.push_back(static_cast<float>(std::sin(0.37 * static_cast<double>(i * i % 1009)) + 0.4));
    for (int64_t i = 0; i < kSamples; ++i) y.push_back(static_cast<int32_t>(i * 7 % kClasses));
  }
  Dataset dataset() const {
    return Dataset::slices({{"x", x, {kSamples, kChannels, kSide, kSide}}, {"y", y}}).batch(8);
  }
  std::vector<float> x;
  std::vector<int32_t> y;
};

class StoredPredictor : public ::testing::Test {
 protected:
  StoredPredictor() { fs::remove_all(path_); }
  ~StoredPredictor() override { fs::remove_all(path_); }

  // Trains for statistics that are neither 0 nor 1, and saves.
  void store(const Model& written) {
    net_.emplace(written);
    net_->compile({.optimiser = Optimiser::adam(0.02), .loss = "sparse_cross_entropy"});
    net_->fit(pictures_.dataset(), line_, {.epochs = 3});
    net_->save(path_);
  }

  std::vector<float> answers(bool folds) const {
    Predictor predictor(path_, line_, 8, {.folds_norms = folds});
    std::vector<float> all;
    const int64_t step = predictor.input_elements();
    for (int64_t i = 0; i < std::ssize(pictures_.x); i += step) {
      const auto given = predictor.predict(std::span(pictures_.x).subspan(static_cast<size_t>(i), step)).floats();
      all.insert(all.end(), given.begin(), given.end());
    }
    return all;
  }

  int count_norms(bool folds) const {
    const store::StoredModel stored = store::read_model(path_);
    const store::FoldedNorms found(stored.traced->inference);
    Graph graph;
    const Tensor x = graph.placeholder("x", DType::F32, {Dim::batch(), kChannels, kSide, kSide});
    (folds ? model::replay_model(stored.traced, found.rewrite()) : stored.spec.model)(x);
    int norms = 0;
    for (const graph::Node& node : graph.body().nodes()) norms += node.op->name == "batch_norm_inference" ? 1 : 0;
    return norms;
  }

  void expect_close() {
    const std::vector<float> plain = answers(false), folded = answers(true);
    ASSERT_EQ(plain.size(), folded.size());
    EXPECT_EQ(plain, net_->predict(pictures_.dataset(), line_).numbers) << "unfolded answers are those of the model";
    double largest = 0;
    for (const float each : plain) largest = std::max(largest, std::abs(static_cast<double>(each)));
    for (size_t i = 0; i < plain.size(); ++i) ASSERT_NEAR(plain[i], folded[i], kTolerance * largest) << i;
  }

  const std::string path_ =
      ::testing::TempDir() + "predictor_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const Pictures pictures_;
  const MemoryLine line_{128 * MiB};
  std::optional<Model> net_;
};

TEST_F(StoredPredictor, FoldsNormsIntoConvolutionsDepthwiseOnesAndDenseLayers) {
  store(sequential({layers::conv2d(16, 3, {.padding = "same", .use_bias = false}), layers::batch_norm(),
                    layers::activation("relu"), layers::depthwise_conv2d(3, {.use_bias = false}), layers::batch_norm(),
                    layers::conv2d(10, 1), layers::batch_norm(), layers::activation("relu"), layers::flatten(),
                    layers::dense(12), layers::batch_norm(), layers::dense(6, {.use_bias = false}),
                    layers::batch_norm({.epsilon = 0.1}), layers::dense(kClasses)}));
  EXPECT_EQ(count_norms(false), 5);
  EXPECT_EQ(count_norms(true), 0);
  expect_close();
}

// Such a norm stays: its input is read by others too, or there is no layer before it.
TEST_F(StoredPredictor, LeavesNormsThatCantBeFolded) {
  store(Model("net", {"x"}, {"y"}, [](const NamedTensors& in, bool training) {
    const Tensor x = layers::batch_norm(in["x"], training);
    const Tensor y = layers::conv2d(x, 8, 3, {.padding = "same"});
    const Tensor normed = layers::batch_norm(y, training);
    const Tensor z = layers::batch_norm(layers::conv2d(relu(normed + y), 8, 3), training);
    return NamedTensors{{"y", layers::dense(layers::flatten(z), kClasses)}};
  }));
  EXPECT_EQ(count_norms(false), 3);
  EXPECT_EQ(count_norms(true), 2);
  expect_close();
}

TEST_F(StoredPredictor, AModelWithoutNormsGivesTheSameBits) {
  store(sequential({layers::conv2d(8, 3), layers::activation("relu"), layers::flatten(), layers::dense(kClasses)}));
  EXPECT_EQ(answers(false), answers(true));
}

TEST_F(StoredPredictor, RefusesAFileThatLacksWhatIsFolded) {
  store(sequential({layers::conv2d(8, 3), layers::flatten(), layers::dense(kClasses)}));
  const std::string without_norms = path_ + "_other";
  fs::remove_all(without_norms);
  fs::rename(path_, without_norms);
  store(sequential({layers::conv2d(8, 3), layers::batch_norm(), layers::flatten(), layers::dense(kClasses)}));
  const store::FoldedNorms found(store::read_model(path_).traced->inference);
  const weights::WeightsReader file(without_norms + "/weights.safetensors");
  EXPECT_THAT(testing::error_of([&] { found.change(file); }),
              ::testing::HasSubstr("of 8 numbers, which the model needs"));
  fs::remove_all(without_norms);
}

// Of a norm there is nothing left but the bias.
TEST_F(StoredPredictor, NeedsLessMemoryFolded) {
  store(sequential(
      {layers::conv2d(64, 3, {.use_bias = false}), layers::batch_norm(), layers::flatten(), layers::dense(kClasses)}));
  const auto bytes = [&](bool folds) {
    const MemoryLine line(GiB);
    const Predictor predictor(path_, line, 1, {.folds_norms = folds});
    return line.used();
  };
  EXPECT_LT(bytes(true), bytes(false));
}

TEST_F(StoredPredictor, SaysThatItWasMovedAndWhichInputsThereAre) {
  store(sequential({layers::flatten(), layers::dense(kClasses)}));
  const MemoryLine line(GiB);
  Predictor predictor(path_, line);
  EXPECT_THAT(testing::error_of([&] { predictor.input(1); }),
              ::testing::HasSubstr("there is no input 1: the model has 1"));
  const Predictor taken = std::move(predictor);
  // NOLINTBEGIN(bugprone-use-after-move)
  const auto moved = ::testing::HasSubstr("the predictor was moved away");
  EXPECT_THAT(testing::error_of([&] { static_cast<void>(predictor.inputs()); }), moved);
  EXPECT_THAT(testing::error_of([&] { static_cast<void>(predictor.batch()); }), moved);
  EXPECT_THAT(testing::error_of([&] { predictor.predict(std::vector<float>(1)); }), moved);
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_EQ(taken.inputs().size(), 1U);
}

}  // namespace
}  // namespace plimsoll
