// A training of a user's own model that is stopped and goes on, as a user's program does it.
#include <cmath>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/callback.h>
#include <plimsoll/train.h>
#include "input/files.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryDirectory;

struct Numbers {
  Numbers() {
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * i % 977));
    for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int32_t>(i % 3);
  }
  std::vector<float> x = std::vector<float>(80 * 16);
  std::vector<int32_t> y = std::vector<int32_t>(80);
  // 10 steps an epoch.
  Dataset shuffled() const {
    return Dataset::slices({{"x", x, {80, 1, 4, 4}}, {"y", y}}).shuffle({.seed = 5}).batch(8);
  }
};

Model make_net(int64_t units) {
  Model net = sequential({layers::conv2d(4, 3, {.padding = "same"}), layers::batch_norm(), layers::flatten(),
                          layers::dropout(0.3), layers::dense(units, {.activation = "relu"}), layers::dense(3)});
  net.compile({.optimiser = Optimiser::adam(1e-2), .loss = "sparse_cross_entropy", .metrics = {"accuracy"}});
  return net;
}

struct Trained {
  History history;
  std::string weights;  // of all variables, as a file
};

// Stops after so many steps; -1: after 10 epochs.
Trained train(const Numbers& numbers, const std::string& folder, int64_t most = -1, int64_t units = 8) {
  Model net = make_net(units);
  MemoryLine line(64 * MiB);
  const std::string file = folder + ".safetensors";
  const auto stops = custom_callback({.after_step =
                                          [&](FitRun& run) {
                                            if (run.steps() == most) run.stop("enough");
                                          },
                                      .after_training = [&](FitRun& run) { run.save_weights(file); }});
  Trained trained;
  trained.history = net.fit(
      numbers.shuffled(), line,
      {.epochs = 10,
       .validation = numbers.shuffled(),
       .callbacks = {checkpoint(folder, {.every_steps = 20, .resume = true}), reduce_on_plateau({.patience = 2}),
                     early_stopping({.patience = 10, .restore_best_weights = true, .folder = folder}), stops}});
  std::ifstream stream(file, std::ios::binary);
  trained.weights.assign(std::istreambuf_iterator<char>(stream), {});
  return trained;
}

TEST(CheckpointFit, GoingOnEqualsNotHavingStopped) {
  const TemporaryDirectory files;
  const Numbers numbers;
  const Trained whole = train(numbers, files.path() + "/whole");
  for (const int64_t first : {50, 53}) {
    const std::string folder = files.path() + "/parts" + std::to_string(first);
    EXPECT_EQ(train(numbers, folder, first).history.stop_reason, "enough");
    const Trained rest = train(numbers, folder);
    EXPECT_FALSE(rest.history.was_stopped());
    EXPECT_EQ(rest.history.epochs, whole.history.epochs) << first;
    EXPECT_EQ(rest.weights, whole.weights) << first;
  }
}

TEST(CheckpointFit, AnotherModelIsRefused) {
  const TemporaryDirectory files;
  const Numbers numbers;
  train(numbers, files.path() + "/run", 3);
  try {
    train(numbers, files.path() + "/run", -1, 9);
    FAIL() << "it was accepted";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("is of another training: its number of weights is "));
  }
}

}  // namespace
}  // namespace plimsoll
