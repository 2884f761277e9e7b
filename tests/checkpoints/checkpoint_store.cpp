#include "train/checkpoint_store.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/callback.h>
#include <plimsoll/error.h>
#include "support/error_of.h"
#include "train/loop.h"
#include "train/small_data.h"

namespace plimsoll::checkpoints {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::SmallData;

// A training that was run for some steps, with a checkpoint every 4 of them.
class CheckpointStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<train::Training> make(train::Spec spec) const { return train::make_training(spec); }
  std::unique_ptr<train::Training> make_open(const train::Spec& spec) const {
    auto training = train::make_training(spec);
    training->session->open();
    return training;
  }
  void train(int64_t steps = 12) const {
    const auto training = train::make_training(data.spec());
    train::TrainingLoop loop(*training, {.epochs = 9, .steps = steps}, {checkpoint(folder, {.every_steps = 4})});
    loop.open();
    loop.run();
  }
  static std::string newest_file(const std::string& folder, const char* name) {
    return train::list_checkpoints(folder).back().path + "/" + name;
  }
  static void flip_byte(const std::string& path, std::streamoff at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(at);
    file.put(byte);
  }
  int64_t loaded_step(std::vector<std::string>* damaged = nullptr) const {
    const auto training = make_open(data.spec());
    const auto loaded = train::CheckpointStore(folder).load_newest(*training);
    if (!loaded) return -1;
    EXPECT_EQ(training->session->step_count(), loaded->place.steps);
    if (damaged != nullptr) *damaged = loaded->damaged;
    return loaded->place.steps;
  }

  const SmallData data{64, 16};
  const std::string folder = data.folder() + "/checkpoints";
};

TEST_F(CheckpointStoreTest, KeepsTheLastThree) {
  train(21);  // 4, 8, 12, 16, 20, and 21 at the end
  std::vector<int64_t> steps;
  for (const train::CheckpointPlace& place : train::list_checkpoints(folder)) steps.push_back(place.steps);
  EXPECT_THAT(steps, ElementsAre(16, 20, 21));
  EXPECT_EQ(loaded_step(), 21);
}

TEST_F(CheckpointStoreTest, WithoutAnyThereIsNothingToLoad) {
  EXPECT_EQ(loaded_step(), -1);
  EXPECT_FALSE(fs::exists(folder)) << "reading makes nothing";
}

TEST_F(CheckpointStoreTest, AFlippedByteAnywhereFallsBackToTheOneBefore) {
  train();
  for (const char* name : {"weights.safetensors", "optimiser.safetensors"})
    for (const double where : {0.0, 0.3, 0.7, 1.0}) {
      const std::string path = newest_file(folder, name);
      const auto at = static_cast<std::streamoff>(where * static_cast<double>(fs::file_size(path) - 1));
      flip_byte(path, at);
      std::vector<std::string> damaged;
      EXPECT_EQ(loaded_step(&damaged), 8) << name << " " << at;
      ASSERT_EQ(damaged.size(), 1U);
      EXPECT_THAT(damaged[0], HasSubstr(path + "' is damaged: its checksum is"));
      flip_byte(path, at);
    }
  EXPECT_EQ(loaded_step(), 12);
}

TEST_F(CheckpointStoreTest, AMissingOrTruncatedFileFallsBackToo) {
  train();
  std::vector<std::string> damaged;
  const std::string weights = newest_file(folder, "weights.safetensors");
  fs::resize_file(weights, fs::file_size(weights) - 1);
  EXPECT_EQ(loaded_step(&damaged), 8);
  EXPECT_THAT(damaged.at(0), HasSubstr(" bytes, not "));
  fs::remove(weights);
  EXPECT_EQ(loaded_step(&damaged), 8);
  EXPECT_THAT(damaged.at(0), HasSubstr("No such file"));
  const std::string manifest = train::list_checkpoints(folder)[1].path + "/manifest.json";
  fs::resize_file(manifest, fs::file_size(manifest) / 2);
  EXPECT_EQ(loaded_step(&damaged), 4);
  EXPECT_EQ(damaged.size(), 2U);
  EXPECT_THAT(damaged.at(1), HasSubstr("truncated or damaged"));
  fs::remove_all(train::list_checkpoints(folder)[0].path + "/manifest.json");
  EXPECT_THAT(error_of([&] { loaded_step(); }), HasSubstr("no checkpoint in '" + folder + "' is whole; checkpoint"));
}

// A save after resuming from the last good checkpoint is the newest, not the damaged one.
TEST_F(CheckpointStoreTest, TheNextSaveIsTheNewest) {
  train();
  flip_byte(newest_file(folder, "weights.safetensors"), 100);
  const auto training = make_open(data.spec());
  train::CheckpointStore store(folder, 1);
  const auto loaded = store.load_newest(*training);
  ASSERT_TRUE(loaded);
  store.open(*training);
  EXPECT_EQ(store.save(*training, loaded->run).steps, 8);
  ASSERT_EQ(store.list().size(), 1U);
  EXPECT_EQ(loaded_step(), 8);
}

TEST_F(CheckpointStoreTest, OfAnotherTrainingIsRefusedWithWhatDiffers) {
  train();
  const auto refusal = [&](const train::Spec& spec) {
    const auto training = make_open(spec);
    return error_of([&] { train::CheckpointStore(folder).load_newest(*training); });
  };
  train::Spec wide = data.spec();
  wide.model_options.width = 16;
  EXPECT_THAT(refusal(wide), HasSubstr("is of another training: its number of weights is "));
  train::Spec batch = data.spec();
  batch.batch = 4;
  EXPECT_THAT(refusal(batch), HasSubstr("its batch is 8, here it is 4; give the options it was made with"));
  train::Spec other = data.spec();
  other.optimiser = Optimiser::sgd();
  EXPECT_THAT(refusal(other), HasSubstr("its optimiser is adam, here it is sgd"));
  train::Spec beta = data.spec();
  beta.optimiser.set("beta1", 0.8);
  EXPECT_THAT(refusal(beta), HasSubstr("its step (operators and their settings) is "));
  // What may differ.
  train::Spec rate = data.spec();
  rate.learning_rate = 0.5;
  EXPECT_EQ(refusal(rate), "no error");
  train::Spec line = data.spec();
  line.line = 2 * GiB;
  EXPECT_EQ(refusal(line), "no error");
}

TEST_F(CheckpointStoreTest, ABadWeightKeepsTheLastGoodOne) {
  train();
  const auto training = make_open(data.spec());
  train::CheckpointStore store(folder);
  const auto loaded = store.load_newest(*training);
  store.open(*training);
  const graph::Variable& first = training->graph.body().variables()[0];
  training->session->fill({training->graph, first.value}, [](void* into, Bytes, Bytes bytes) {
    std::fill_n(static_cast<float*>(into), bytes / 4, HUGE_VALF);
  });
  try {
    store.save(*training, loaded->run);
    FAIL() << "it was saved";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::BadNumbers);
    EXPECT_THAT(e.what(), HasSubstr("no checkpoint is written at step 12: '"));
    EXPECT_THAT(e.what(), HasSubstr("holds NaN or infinity and is not saved; the last one is '" + folder));
  }
  EXPECT_EQ(loaded_step(), 12);
  EXPECT_EQ(store.list().size(), 3U);
}

TEST_F(CheckpointStoreTest, SavesOnlyTheBest) {
  train::Spec spec = data.spec();
  spec.optimiser = Optimiser::sgd();
  spec.learning_rate = 1e-12;  // so that nothing gets better
  const auto steps_saved = [&](const CheckpointOptions& options) {
    fs::remove_all(folder);
    const auto training = train::make_training(spec);
    train::TrainingLoop loop(*training, {.epochs = 4}, {checkpoint(folder, options)});
    loop.open();
    loop.run();
    std::vector<int64_t> steps;
    for (const train::CheckpointPlace& place : train::list_checkpoints(folder)) steps.push_back(place.steps);
    return steps;
  };
  EXPECT_THAT(steps_saved({.save_best_only = true}), ElementsAre(8));
  EXPECT_THAT(steps_saved({.every_steps = 3, .every_epochs = 2, .save_best_only = true}), ElementsAre(16));
  EXPECT_THAT(steps_saved({}), ElementsAre(16, 24, 32));
  EXPECT_THAT(error_of([&] { steps_saved({.save_best_only = true, .monitor = "luck"}); }), HasSubstr("no 'luck'"));
}

TEST_F(CheckpointStoreTest, NumbersThatMakeNoSenseAreRefused) {
  EXPECT_THAT(error_of([&] { checkpoint(folder, {.keep = 0}); }), HasSubstr("keep 1 or more"));
  EXPECT_THAT(error_of([&] { checkpoint(folder, {.every_steps = -1}); }), HasSubstr("make no sense"));
  EXPECT_THAT(error_of([&] { checkpoint(folder, {.every_seconds = std::nan("")}); }), HasSubstr("make no sense"));
  const auto training = make(data.spec());
  train::TrainingLoop loop(*training, {}, {checkpoint("/proc/self/checkpoints")});
  loop.open();
  EXPECT_THAT(error_of([&] { loop.run(); }), HasSubstr("checkpoints can't be written to '/proc/self/checkpoints'"));
  EXPECT_EQ(loop.steps(), 0);
}

}  // namespace
}  // namespace plimsoll::checkpoints
