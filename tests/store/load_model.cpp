// Models that come from files: trained, scored and called like those that code builds.
#include <filesystem>
#include <fstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/eager.h>
#include <plimsoll/plimsoll.h>
#include "support/error_of.h"
#include "train/circle.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using testing::Circle;
using testing::error_of;
using ::testing::HasSubstr;

// Batch norm and dropout: statistics and random masks must go on as they would have.
Model noisy_net() {
  return sequential(
      {layers::dense(16), layers::batch_norm(), layers::activation("relu"), layers::dropout(0.3), layers::dense(3)});
}

class LoadedModels : public ::testing::Test {
 protected:
  LoadedModels() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~LoadedModels() override { fs::remove_all(folder_); }
  std::string path(const std::string& name = "net.plimsoll") const { return folder_ + "/" + name; }

  const std::string folder_ =
      ::testing::TempDir() + "load_model_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const Circle points_{96};
  const Dataset train_ = points_.dataset().shuffle().batch(32), test_ = points_.dataset().batch(32);
  MemoryLine line_{64 * MiB};
};

std::vector<float> predict_all(Model& net, const Dataset& data, const MemoryLine& line) {
  return net.predict(data, line).numbers;
}

TEST_F(LoadedModels, TrainTheSameBits) {
  Model net = noisy_net();
  net.compile({.optimiser = Optimiser::adam(0.02), .loss = "sparse_cross_entropy", .metrics = {"accuracy"}});
  net.fit(train_, line_, {.epochs = 2});
  net.save(path());
  net.save_weights(path("w.safetensors"));

  // The same weights without the optimiser's state, in the model that code builds.
  Model written = noisy_net(), loaded = Model::load(path());
  EXPECT_EQ(loaded.name(), "sequential");
  written.load_weights(path() + "/weights.safetensors");
  for (Model* model : {&written, &loaded})
    model->compile({.optimiser = Optimiser::adam(0.02), .loss = "sparse_cross_entropy"});
  const History first = written.fit(train_, line_, {.epochs = 2}), second = loaded.fit(train_, line_, {.epochs = 2});
  EXPECT_EQ(first["loss"], second["loss"]);
  EXPECT_EQ(predict_all(written, test_, line_), predict_all(loaded, test_, line_));
  EXPECT_NE(predict_all(net, test_, line_), predict_all(loaded, test_, line_));
  // The loaded model can be saved and loaded again.
  loaded.save(path("again"));
  Model again = Model::load(path("again"));
  EXPECT_EQ(predict_all(again, test_, line_), predict_all(loaded, test_, line_));
}

TEST_F(LoadedModels, EvaluateAndPredictWithoutTheSource) {
  Model net = noisy_net();
  net.compile({.optimiser = Optimiser::adam(0.02), .loss = "sparse_cross_entropy", .metrics = {"accuracy"}});
  net.fit(train_, line_, {.epochs = 3});
  net.save(path(), {.class_names = {"a", "b", "c"}, .mean = {0.5F}, .deviation = {2}});
  Model loaded = Model::load(path());
  EXPECT_EQ(loaded.preprocessing().class_names, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(predict_all(loaded, test_, line_), predict_all(net, test_, line_));
  loaded.compile({.loss = "sparse_cross_entropy", .metrics = {"accuracy"}});
  EXPECT_EQ(loaded.evaluate(test_, line_)["loss"], net.evaluate(test_, line_)["loss"]);
  // Saved unchanged, without a call: the facts stay.
  Model::load(path()).save(path("copy"));
  EXPECT_EQ(Model::load(path("copy")).preprocessing(), loaded.preprocessing());
  // Saved over the directory that it was loaded from.
  Model same = Model::load(path());
  same.save(path());
  EXPECT_EQ(predict_all(same, test_, line_), predict_all(net, test_, line_));
}

TEST_F(LoadedModels, RunInEagerCode) {
  Model net = noisy_net();
  net.compile({.optimiser = Optimiser::adam(0.02), .loss = "sparse_cross_entropy"});
  net.fit(train_, line_, {.epochs = 2});
  net.save(path());
  const std::vector<float> expected = predict_all(net, points_.dataset().batch(96), line_);

  Eager eager(MemoryLine(64 * MiB));
  Model loaded = Model::load(path());
  const Tensor x = tensor(points_.x, {96, 2});
  const Tensor y = loaded(x);
  const std::vector<float> answer = y.to_vector<float>();
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(answer[i], expected[i], 1e-5) << i;
  // It goes on to learn there.
  const Tensor labels = tensor(points_.y, {96});
  const Optimiser sgd = Optimiser::sgd(0.1);
  float before = 0, after = 0;
  for (int i = 0; i < 30; ++i) {
    Tape tape;
    const Tensor loss = sparse_cross_entropy(loaded(x, true), labels);
    const std::vector<Tensor> weights = loaded.weights();
    sgd.apply(tape.gradient(loss, weights), weights);
    (i == 0 ? before : after) = loss.item<float>();
  }
  EXPECT_LT(after, before);
}

TEST_F(LoadedModels, SayWhatIsMissing) {
  Model net = noisy_net();
  EXPECT_THAT(error_of([&] { net.save(path()); }), HasSubstr("has not seen its inputs yet"));
  EXPECT_THAT(error_of([&] { Model::load(path()); }), HasSubstr("there is no such directory"));
  net.compile({.optimiser = Optimiser::adam(0.02), .loss = "sparse_cross_entropy"});
  net.fit(train_, line_, {.epochs = 1});
  net.save(path());
  fs::create_directory(path("mine"));
  std::ofstream(path("mine") + "/letter.txt") << "dear";
  EXPECT_THAT(error_of([&] { net.save(path("mine")); }), HasSubstr("holds 'letter.txt', which is no file of a model"));
  EXPECT_TRUE(fs::exists(path("mine") + "/letter.txt"));
  // Other inputs than those that it was saved with.
  Model loaded = Model::load(path());
  const std::vector<float> wide(96 * 3);
  EXPECT_THAT(error_of([&] {
                loaded.predict(Dataset::slices({{"x", wide, {96, 3}}}).batch(32), line_);
              }),
              HasSubstr("is f32[B,3] but the model takes f32[B,2]"));
}

TEST_F(LoadedModels, SeveralInputsAndAnObjectiveOfOnesOwn) {
  Model pair("pair", {"left", "right"}, {"distance"}, [](const NamedTensors& in, bool) {
    const Tensor a = layers::dense(in["left"], 4), b = layers::dense(in["right"], 4);
    return NamedTensors{{"distance", reduce_sum(abs(a - b), {1})}};
  });
  const std::vector<float> target(96, 1.0F);
  const Dataset data =
      Dataset::slices({{"left", points_.x, {96, 2}}, {"right", points_.x, {96, 2}}, {"distance", target, {96}}})
          .batch(16);
  pair.compile({.optimiser = Optimiser::sgd(0.01), .objective = [](const NamedTensors& out, const NamedTensors& want) {
                  return reduce_mean(abs(out["distance"] - want["distance"]));
                }});
  pair.fit(data, line_, {.epochs = 2});
  pair.save(path());
  Model loaded = Model::load(path());
  EXPECT_EQ(loaded.inputs(), (std::vector<std::string>{"left", "right"}));
  EXPECT_EQ(loaded.outputs(), (std::vector<std::string>{"distance"}));
  EXPECT_EQ(predict_all(loaded, data, line_), predict_all(pair, data, line_));
}

}  // namespace
}  // namespace plimsoll
