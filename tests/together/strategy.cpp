// Replicas of one process: the same bits as other numbers of them, under one line, and how they end together.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/plimsoll.h>
#include "input/files.h"
#include "ranks/communicator.h"
#include "support/error_of.h"
#include "train/circle.h"

namespace plimsoll {
namespace {

using testing::Circle;
using testing::error_of;
using ::testing::HasSubstr;
using testing::TemporaryDirectory;

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Model net_of(Optimiser optimiser = Optimiser::adam(0.02)) {
  Model net = sequential(
      {layers::dense(16, {.activation = "relu"}), layers::dropout(0.2), layers::batch_norm(), layers::dense(3)});
  net.compile({.optimiser = std::move(optimiser), .loss = "sparse_cross_entropy", .metrics = {"accuracy"}});
  return net;
}

struct Trained {
  History history;
  std::string weights;  // the bytes of the file
};

Trained train(const Strategy& strategy, const FitOptions& options = {.epochs = 3}, int64_t samples = 90,
              int64_t batch = 16) {
  const TemporaryDirectory directory;
  const Circle circle(samples);
  MemoryLine line(64 * MiB);
  Model net = net_of();
  FitOptions together = options;
  together.strategy = strategy;
  together.validation = circle.dataset().batch(batch);
  Trained trained;
  trained.history = net.fit(circle.dataset().shuffle({.seed = 3}).batch(batch), line, together);
  net.save_weights(directory.path() + "/weights.safetensors");
  trained.weights = content_of(directory.path() + "/weights.safetensors");
  EXPECT_LE(line.peak(), line.limit());
  return trained;
}

// 90 samples in batches of 16: the last one, of 10, leaves shards of 2 and of 1 sample.
TEST(Mirrored, HasTheSameBitsForAnyNumberOfReplicas) {
  const Trained one = train(Strategy::mirrored(1, {.shards = 8}));
  EXPECT_EQ(one.history.epochs[0].steps, 6);
  EXPECT_EQ(one.history.validation_samples, 90);
  EXPECT_LT(one.history["loss"].back(), one.history["loss"].front());
  for (const int replicas : {2, 4, 8}) {
    const Trained several = train(Strategy::mirrored(replicas, {.shards = 8}));
    EXPECT_TRUE(several.weights == one.weights) << replicas;
    EXPECT_EQ(several.history.epochs, one.history.epochs) << replicas;
  }
}

// A last batch of 3 samples: five of eight shards have none.
TEST(Mirrored, TrainsEachSampleOfALastBatchThatDoesNotDivide) {
  const auto losses = [](const Strategy& strategy) { return train(strategy, {.epochs = 2}, 51, 16).history["loss"]; };
  const std::vector<double> one = losses(Strategy::mirrored(1, {.shards = 8}));
  EXPECT_EQ(losses(Strategy::mirrored(8, {.shards = 8})), one);
  EXPECT_EQ(losses(Strategy::mirrored(2, {.shards = 8})), one);
  EXPECT_EQ(train(Strategy::mirrored(3), {.epochs = 1}, 51, 16).history.epochs[0].steps, 4);
}

// Without layers that mix samples, the gradient of the whole batch is that of its parts.
TEST(Mirrored, EqualsOneProcessUpToRounding) {
  const Circle circle(90);
  const auto losses = [&](const Strategy& strategy) {
    MemoryLine line(64 * MiB);
    Model net = sequential({layers::dense(16, {.activation = "tanh"}), layers::dense(3)});
    net.compile({.optimiser = Optimiser::sgd(0.1), .loss = "sparse_cross_entropy"});
    return net.fit(circle.dataset().batch(20), line, {.epochs = 5, .strategy = strategy})["loss"];
  };
  const std::vector<double> alone = losses({});
  for (const int replicas : {2, 3, 4}) {
    const std::vector<double> several = losses(Strategy::mirrored(replicas));
    ASSERT_EQ(several.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(several[i], alone[i], 1e-5 * alone[i]) << replicas;
  }
}

TEST(Mirrored, DoesForAllWhatCallbacksDo) {
  const auto run = [](const Strategy& strategy, const Callbacks& callbacks) {
    return train(strategy, {.epochs = 6, .callbacks = callbacks});
  };
  const auto rates = [] {
    return custom_callback({.after_step = [](FitRun& fit) { fit.set_learning_rate(0.05 / double(fit.steps())); }});
  };
  const auto stop_after = [](int64_t steps) {
    return custom_callback({.after_step = [steps](FitRun& fit) {
      if (fit.steps() == steps) fit.stop("enough");
    }});
  };
  const Strategy alone = Strategy::mirrored(1, {.shards = 4}), several = Strategy::mirrored(4, {.shards = 4});
  EXPECT_TRUE(run(several, {rates()}).weights == run(alone, {rates()}).weights);
  const Trained stopped = run(several, {stop_after(9)});
  EXPECT_EQ(stopped.history.stop_reason, "enough");
  EXPECT_EQ(stopped.history.epochs.back().steps, 3) << "nine steps, six in the first epoch";
  EXPECT_TRUE(stopped.weights == run(alone, {stop_after(9)}).weights);
  const auto best = [] { return early_stopping({.monitor = "loss", .mode = "max", .restore_best_weights = true}); };
  EXPECT_TRUE(run(several, {best()}).weights == run(alone, {best()}).weights);
}

TEST(Mirrored, GoesOnFromACheckpointWithAnotherNumber) {
  const Trained whole = train(Strategy::mirrored(1, {.shards = 4}), {.epochs = 4});
  const TemporaryDirectory directory;
  const auto run = [&](const Strategy& strategy, int64_t epochs) {
    return train(strategy, {.epochs = epochs, .callbacks = {checkpoint(directory.path() + "/c", {.resume = true})}});
  };
  run(Strategy::mirrored(4, {.shards = 4}), 2);
  const Trained rest = run(Strategy::mirrored(2, {.shards = 4}), 4);
  EXPECT_TRUE(rest.weights == whole.weights);
  EXPECT_EQ(rest.history.epochs, whole.history.epochs);
}

TEST(Mirrored, KeepsItsWeightsForWhatFollows) {
  const Circle circle(96);
  const Dataset batches = circle.dataset().batch(32);
  MemoryLine line(64 * MiB);
  Model net = net_of();
  const FitOptions first{.epochs = 2, .validation = batches, .strategy = Strategy::mirrored(2)};
  const History history = net.fit(batches, line, first);
  EXPECT_NEAR(net.evaluate(batches, line)["loss"], history["val_loss"].back(), 1e-6);
  const FitOptions second{.epochs = 4, .initial_epoch = 2, .validation = batches, .strategy = Strategy::mirrored(4)};
  EXPECT_LT(net.fit(batches, line, second)["val_loss"].back(), history["val_loss"].back());
}

TEST(Mirrored, EndsWithTheErrorOfOneReplica) {
  Circle circle(64);
  circle.y[40] = 7;  // in the half of the second replica
  MemoryLine line(64 * MiB);
  Model net = net_of();
  const auto fit = [&](const FitOptions& options) {
    return error_of([&] { net.fit(circle.dataset().batch(64), line, options); });
  };
  EXPECT_THAT(fit({.strategy = Strategy::mirrored(2)}), HasSubstr("replica 1: "));
  EXPECT_THAT(fit({.strategy = Strategy::mirrored(2)}), HasSubstr("7"));
  const auto fails = custom_callback({.after_step = [](FitRun&) { throw Error("the callback is tired"); }});
  circle.y[40] = 0;
  EXPECT_THAT(fit({.strategy = Strategy::mirrored(2), .callbacks = {fails}}), HasSubstr("the callback is tired"));
  EXPECT_EQ(fit({.strategy = Strategy::mirrored(2)}), "no error") << "the model can be trained after that";
}

TEST(Mirrored, RefusesWhatCanNotBe) {
  EXPECT_THAT(error_of([] { Strategy::mirrored(0); }), HasSubstr("0 replicas can't train"));
  EXPECT_THAT(error_of([] { Strategy::ranks({.timeout = 0}); }), HasSubstr("makes no sense"));
  EXPECT_THAT(error_of([] { train(Strategy::mirrored(3, {.shards = 4})); }), HasSubstr("4 shards can't be shared"));
  EXPECT_THAT(error_of([] { train(Strategy::mirrored(2, {.shards = 3})); }), HasSubstr("3 shards make no tree"));
  EXPECT_THAT(error_of([] { train(Strategy::mirrored(20)); }), HasSubstr("a batch of 16 can't be cut"));
}

// The smallest line of a refusal works, and one that is a little smaller does not.
TEST(Mirrored, SharesOneLine) {
  const Circle circle(64);
  const FitOptions options{.strategy = Strategy::mirrored(4)};
  const auto fit = [&](Bytes limit) {
    MemoryLine line(limit);
    Model net = sequential({layers::dense(512, {.activation = "relu"}), layers::dense(512), layers::dense(3)});
    net.compile({.loss = "sparse_cross_entropy"});
    net.fit(circle.dataset().batch(64), line, options);
    return line.peak();
  };
  Bytes smallest = 0;
  try {
    fit(4 * MiB);
  } catch (const DoesNotFit& e) {
    smallest = e.refusal().smallest_line;
  }
  ASSERT_GT(smallest, 4 * MiB);
  EXPECT_LE(fit(smallest), smallest);
  EXPECT_THROW(fit(smallest - smallest / 8), DoesNotFit);
}

// A program of two ranks, started by the test below: a label of the second one is bad.
TEST(RankProgram, DISABLED_HasABadLabel) {
  Circle circle(64);
  circle.y[40] = 7;
  MemoryLine line(64 * MiB);
  Model net = net_of();
  const std::string error =
      error_of([&] { net.fit(circle.dataset().batch(64), line, {.strategy = Strategy::ranks({.timeout = 20})}); });
  std::printf("said <%s>\n", error.c_str());
}
TEST(RankProgram, DISABLED_TrainsDifferentThings) {
  const bool is_second = std::string(std::getenv("OMPI_COMM_WORLD_RANK")) == "1";
  std::printf("said <%s>\n", error_of([&] { train(Strategy::ranks(), {.epochs = is_second ? 2 : 3}); }).c_str());
}

std::string output_of_ranks(const std::string& test) {
  const std::string command =
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe "
      "--bind-to none -n 2 " +
      std::filesystem::read_symlink("/proc/self/exe").string() +
      " --gtest_also_run_disabled_tests --gtest_filter=RankProgram.DISABLED_" + test + " 2>&1";
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  std::string output;
  for (char text[512]; std::fgets(text, sizeof text, pipe) != nullptr;) output += text;
  ::pclose(pipe);
  return output;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Ranks, ThrowTheErrorOfOneOnAll) {
  if (!ranks::has_mpi()) GTEST_SKIP() << "this build has no ranks";
  const std::string bad = output_of_ranks("HasABadLabel");
  EXPECT_EQ(count_of(bad, "said <rank 1: "), 2U) << bad;
  EXPECT_THAT(bad, HasSubstr("7"));
  const std::string other = output_of_ranks("TrainsDifferentThings");
  EXPECT_EQ(count_of(other, "the number of epochs of rank 1 is '2', that of rank 0 is '3'"), 2U) << other;
}

TEST(Ranks, AreAloneWhereNobodyStartedSeveral) {
  EXPECT_TRUE(train(Strategy::ranks({.shards = 8})).weights == train(Strategy::mirrored(2, {.shards = 8})).weights);
}

}  // namespace
}  // namespace plimsoll
