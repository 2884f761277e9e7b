// Early stopping, reduced rates and callbacks made of functions.
#include <cmath>
#include <filesystem>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/plimsoll.h>
#include "input/files.h"
#include "support/error_of.h"

namespace plimsoll {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

// A training whose numbers are given.
class PlayedRun final : public FitRun {
 public:
  explicit PlayedRun(std::vector<double> values, std::string name = "val_loss")
      : values_(std::move(values)), logs_{{std::move(name), 0}} {}

  // Plays all epochs, or until it is stopped; returns the last.
  int64_t play(Callback& callback) {
    callback.before_training(*this);
    return go_on(callback);
  }
  int64_t go_on(Callback& callback) {
    while (epoch_ < epochs() && reason.empty()) {
      logs_[0].value = values_[static_cast<size_t>(epoch_++)];
      weights = logs_[0].value;
      callback.after_epoch(*this);
      rates.push_back(rate_);
    }
    callback.after_training(*this);
    callback.finish(*this);
    return epoch_;
  }

  int64_t epoch() const override { return epoch_; }
  int64_t epochs() const override { return static_cast<int64_t>(values_.size()); }
  int64_t steps() const override { return epoch_; }
  int64_t epoch_steps() const override { return 1; }
  int64_t steps_per_epoch() const override { return 1; }
  int64_t step_samples() const override { return 1; }
  bool is_epoch_over() const override { return true; }
  bool is_resumed() const override { return false; }
  std::span<const LogValue> logs() const override { return logs_; }
  double learning_rate() const override { return rate_; }
  void set_learning_rate(double rate) override { rate_ = rate; }
  void stop(std::string why) override { reason = std::move(why); }
  bool is_stopping() const override { return !reason.empty(); }
  void save_weights(const std::string& path) override {
    saved = weights;
    saved_path = path;
  }
  void load_weights(const std::string&) override { weights = saved; }
  Bytes line() const override { return 0; }
  Bytes planned_peak() const override { return 0; }
  Bytes measured_peak() const override { return 0; }

  std::string reason, saved_path;
  double weights = 0, saved = -1;
  std::vector<double> rates;

 private:
  std::vector<double> values_;
  std::vector<LogValue> logs_;
  int64_t epoch_ = 0;
  double rate_ = 1;
};

int64_t stopped_at(const EarlyStopping& options, const std::vector<double>& values, const char* name = "val_loss") {
  PlayedRun run(values, name);
  return run.play(*early_stopping(options));
}

TEST(EarlyStopping, WaitsAsLongAsItsPatience) {
  const std::vector<double> values{5, 4, 4.5, 4.2, 3.9, 4, 4, 4};
  EXPECT_EQ(stopped_at({.patience = 0}, values), 3);
  EXPECT_EQ(stopped_at({.patience = 2}, values), 4);
  EXPECT_EQ(stopped_at({.patience = 3}, values), 8);
  EXPECT_EQ(stopped_at({.patience = 4}, values), 8) << "to the end";
  EXPECT_EQ(stopped_at({.min_delta = 0.5, .patience = 3}, values), 5) << "3.9 is no improvement on 4";
  EXPECT_EQ(stopped_at({.patience = 1, .start_from_epoch = 4}, values), 6);
  EXPECT_EQ(stopped_at({.patience = 2, .baseline = 3}, values), 2) << "worse than the baseline all the time";
  EXPECT_EQ(stopped_at({.monitor = "val_accuracy", .patience = 1}, {1, 2, 3, 2, 9}, "val_accuracy"), 4);
  EXPECT_EQ(stopped_at({.patience = 1, .mode = "max"}, {1, 2, 3, 2, 9}), 4);
  EXPECT_EQ(stopped_at({.patience = 1}, {1, std::nan(""), 0.5}), 2) << "NaN never improves";
}

TEST(EarlyStopping, RestoresTheBestWeightsFromAFile) {
  PlayedRun run({5, 3, 4, 4});
  {
    const auto callback = early_stopping({.patience = 2, .restore_best_weights = true});
    EXPECT_EQ(run.play(*callback), 4);
    EXPECT_EQ(run.weights, 3);
    EXPECT_TRUE(std::filesystem::exists(run.saved_path));
  }
  EXPECT_FALSE(std::filesystem::exists(run.saved_path)) << "it goes with the callback";
  EXPECT_THAT(run.reason, HasSubstr("did not improve in 2 epochs; the best was 3 in epoch 2"));
}

TEST(EarlyStopping, GoesOnFromItsState) {
  const std::vector<double> values{5, 4, 4.5, 4.2, 4.3, 4.4};
  const auto first = early_stopping({.patience = 3});
  PlayedRun before({5, 4, 4.5});
  before.play(*first);
  const auto second = early_stopping({.patience = 3});
  PlayedRun after({4.2, 4.3, 4.4});
  second->before_training(after);
  second->restore(first->state());
  EXPECT_EQ(after.go_on(*second), 2) << "two more epochs after one without an improvement";
  EXPECT_THAT(error_of([&] { second->restore("nothing"); }), HasSubstr("no state of early stopping"));
}

TEST(EarlyStopping, RefusesWhatMakesNoSense) {
  EXPECT_THAT(error_of([] { early_stopping({.patience = -1}); }), HasSubstr("can't be negative"));
  EXPECT_THAT(error_of([] { early_stopping({.mode = "most"}); }), HasSubstr("mode 'most' is unknown"));
}

TEST(Watching, WhatNoEpochHasIsRefusedBeforeTheFirstStep) {
  const std::vector<float> x(64, 1);
  MemoryLine line;
  Model net = sequential({layers::dense(1)});
  net.compile({.optimiser = Optimiser::sgd(), .loss = "mse"});
  const Dataset data = Dataset::slices({{"x", x, {32, 2}}, {"y", borrow(std::span(x).first(32))}}).batch(16);
  int steps = 0;
  const auto count = custom_callback({.after_step = [&](FitRun&) { ++steps; }});
  const auto refusal = [&](const std::shared_ptr<Callback>& watching, FitOptions options) {
    options.callbacks = {count, watching};
    return error_of([&] { net.fit(data, line, options); });
  };
  EXPECT_THAT(
      refusal(early_stopping({.monitor = "los"}), {}),
      HasSubstr("early_stopping: there is no 'los' to watch; this training has loss, learning_rate, and nothing"));
  EXPECT_THAT(refusal(early_stopping(), {}), HasSubstr("no 'val_loss' to watch"));
  EXPECT_THAT(refusal(reduce_on_plateau({.monitor = "x"}), {}), HasSubstr("reduce_on_plateau: there is no 'x'"));
  const std::string folder = ::testing::TempDir() + "watching";
  EXPECT_THAT(refusal(checkpoint(folder, {.save_best_only = true}), {}),
              HasSubstr("checkpoint: there is no 'val_loss'"));
  // Validation that comes after the last epoch measures nothing.
  const FitOptions late{.epochs = 3, .validation = data, .validation_frequency = 4};
  EXPECT_THAT(refusal(early_stopping(), late), HasSubstr("no 'val_loss' to watch"));
  EXPECT_EQ(steps, 0);
  EXPECT_THAT(error_of([] { early_stopping({.folder = "x"}); }), HasSubstr("set restore_best_weights too"));
  EXPECT_THAT(error_of([] { checkpoint("x", {.monitor = "loss"}); }), HasSubstr("watched with save_best_only alone"));
  EXPECT_EQ(refusal(early_stopping(), {.epochs = 3, .validation = data, .validation_frequency = 3}), "no error");
  EXPECT_EQ(steps, 6);
}

TEST(ReduceOnPlateau, LowersTheRate) {
  PlayedRun run({5, 4, 4, 4, 4, 4, 4});
  run.play(*reduce_on_plateau({.factor = 0.5, .patience = 2}));
  EXPECT_THAT(run.rates, ElementsAre(1, 1, 1, 0.5, 0.5, 0.25, 0.25));
  PlayedRun cool({5, 4, 4, 4, 4, 4, 4});
  cool.play(*reduce_on_plateau({.factor = 0.5, .patience = 1, .cooldown = 2}));
  EXPECT_THAT(cool.rates, ElementsAre(1, 1, 0.5, 0.5, 0.25, 0.25, 0.125));
  PlayedRun bounded({5, 5, 5, 5});
  bounded.play(*reduce_on_plateau({.factor = 0.1, .patience = 1, .min_rate = 0.05}));
  EXPECT_THAT(bounded.rates, ElementsAre(1, 0.1, 0.05, 0.05));
  EXPECT_THAT(error_of([] { reduce_on_plateau({.factor = 1}); }), HasSubstr("a factor of 1 does not reduce"));
}

TEST(LearningRateSchedule, SetsTheRateOfEachEpoch) {
  const std::vector<float> x(64, 1);
  MemoryLine line;
  Model net = sequential({layers::dense(1)});
  net.compile({.optimiser = Optimiser::sgd(4), .loss = "mse"});
  const Dataset data = Dataset::slices({{"x", x, {32, 2}}, {"y", borrow(std::span(x).first(32))}}).batch(16);
  const auto halve = learning_rate_schedule([](int64_t epoch, double rate) { return epoch == 0 ? 1e-3 : rate / 2; });
  EXPECT_THAT(net.fit(data, line, {.epochs = 3, .callbacks = {halve}})["learning_rate"],
              ElementsAre(DoubleNear(1e-3, 1e-8), DoubleNear(5e-4, 1e-8), DoubleNear(2.5e-4, 1e-8)));
}

TEST(Schedule, IsFollowedByUpdates) {
  const std::vector<float> x(64, 1);
  MemoryLine line;
  Model net = sequential({layers::dense(1)});
  net.compile({.optimiser = Optimiser::sgd(), .loss = "mse", .schedule = RateSchedule::piecewise({2}, {1e-3, 1e-4})});
  const Dataset data = Dataset::slices({{"x", x, {32, 2}}, {"y", borrow(std::span(x).first(32))}}).batch(16);
  // Updates 0 to 2 are below the boundary, also where the third is one of a second fit.
  EXPECT_THAT(net.fit(data, line)["learning_rate"], ElementsAre(DoubleNear(1e-3, 1e-8)));
  EXPECT_THAT(net.fit(data, line)["learning_rate"], ElementsAre(DoubleNear(1e-4, 1e-8)));
  const auto other = custom_callback({.after_epoch = [](FitRun& run) { run.set_learning_rate(1); }});
  EXPECT_THAT(error_of([&] { net.fit(data, line, {.callbacks = {other}}); }), HasSubstr("follows a schedule"));
}

}  // namespace
}  // namespace plimsoll
