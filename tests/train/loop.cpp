#include "train/loop.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/error_of.h"
#include "train/small_data.h"

namespace plimsoll::train {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::small_spec;
using testing::SmallData;

// Counts what it hears, and stops after so many steps.
struct Listener : Watcher {
  explicit Listener(int64_t most_steps = -1) : most(most_steps) {}
  bool is_stop_asked() override { return most >= 0 && steps >= most; }
  void after_step(const EpochMeans&, int64_t samples_of_step) override {
    ++steps;
    samples += samples_of_step;
  }
  void after_epoch(const EpochMeans& means) override { epochs.push_back(means); }
  int64_t most;
  int64_t steps = 0, samples = 0;
  std::vector<EpochMeans> epochs;
};

TEST(TrainingLoop, LearnsAndScoresEachEpoch) {
  const SmallData data(64, 21);
  Spec spec = data.spec();
  spec.learning_rate = 0.02;
  const auto training = make_training(spec);
  TrainingLoop loop(*training, {.epochs = 30});
  EXPECT_EQ(loop.steps_per_epoch(), 8);
  loop.open();
  Listener listener;
  const History history = loop.run(listener);
  EXPECT_FALSE(history.was_stopped);
  EXPECT_TRUE(history.has_trained());
  EXPECT_EQ(listener.steps, 30 * 8);
  EXPECT_EQ(listener.samples, 30 * 64);
  ASSERT_EQ(history.epochs.size(), 30U);
  ASSERT_EQ(listener.epochs.size(), 30U);
  EXPECT_LT(history.epochs.back().loss, 0.5 * history.epochs.front().loss);
  EXPECT_GT(history.epochs.back().accuracy, 0.8);
  ASSERT_TRUE(history.score.has_value());
  EXPECT_EQ(history.score->samples, 21);
  EXPECT_EQ(history.epochs.back().test_loss, history.score->loss);
}

TEST(TrainingLoop, StopsWhenTheWatcherAsks) {
  const SmallData data(64, 16);
  const auto training = make_training(data.spec());
  TrainingLoop loop(*training, {.epochs = 5});
  loop.open();
  Listener listener(11);
  const History history = loop.run(listener);
  EXPECT_TRUE(history.was_stopped);
  EXPECT_EQ(listener.steps, 11);
  ASSERT_EQ(history.epochs.size(), 2U) << "an epoch that was cut short is reported too";
  EXPECT_EQ(history.epochs[1].steps, 3);
  EXPECT_FALSE(std::isnan(history.epochs[0].test_loss));
  EXPECT_TRUE(std::isnan(history.epochs[1].test_loss));
}

TEST(TrainingLoop, StoppedBeforeTheFirstStepHasNotTrained) {
  const SmallData data(64, 16);
  const auto training = make_training(data.spec());
  TrainingLoop loop(*training, {});
  loop.open();
  Listener listener(0);
  const History history = loop.run(listener);
  EXPECT_TRUE(history.was_stopped);
  EXPECT_FALSE(history.has_trained());
  EXPECT_TRUE(history.epochs.empty());
}

TEST(TrainingLoop, ANumberOfStepsIsNoStop) {
  const SmallData data(64, 16);
  const auto training = make_training(data.spec());
  TrainingLoop loop(*training, {.epochs = 5, .steps = 9});
  loop.open();
  Listener listener;
  const History history = loop.run(listener);
  EXPECT_FALSE(history.was_stopped);
  EXPECT_EQ(listener.steps, 9);
  EXPECT_EQ(history.epochs.size(), 2U);
}

TEST(TrainingLoop, PlanningStopsToo) {
  EXPECT_THROW(make_training(small_spec(), [] { return true; }), Interrupted);
}

TEST(TrainingLoop, DataThatIsTooSmallOrMissingIsRefused) {
  const SmallData data(64, 16);
  Spec wide = data.spec();
  wide.batch = 100;
  const auto few = make_training(wide);
  EXPECT_THAT(error_of([&] { TrainingLoop(*few, {}); }), HasSubstr("has 64 samples, fewer than a batch of 100"));
  const auto none = make_training(small_spec());
  EXPECT_THAT(error_of([&] { TrainingLoop(*none, {}); }), HasSubstr("there is no training data"));
}

TEST(TrainingLoop, ALossThatIsNotFiniteEndsWithTheAdvice) {
  const SmallData data(64, 16);
  Spec spec = data.spec();
  spec.optimiser = Optimiser::sgd();
  spec.learning_rate = 1e30;
  const auto training = make_training(spec);
  TrainingLoop loop(*training, {.epochs = 20, .advice = "try less"});
  loop.open();
  Listener listener;
  EXPECT_THAT(error_of([&] { loop.run(listener); }), HasSubstr("though the data is finite; try less"));
}

TEST(Evaluate, AShortLastBatchCountsByItsSamples) {
  const SmallData data(64, 21);  // 8 + 8 + 5
  const auto scored = [&](int64_t batch) {
    Spec spec = data.spec();
    spec.purpose = Purpose::Evaluate;
    spec.batch = batch;
    const auto training = make_training(spec);
    Inputs test(*training, *spec.data.test);
    plan_last_batch(*training, test);
    training->session->open();
    return evaluate(*training, test);
  };
  const Score cut = scored(8), whole = scored(21);
  EXPECT_EQ(cut.samples, 21);
  EXPECT_NEAR(cut.loss, whole.loss, 1e-5 * whole.loss);
  EXPECT_DOUBLE_EQ(cut.accuracy, whole.accuracy);
  EXPECT_FALSE(cut.stopped);
}

TEST(Evaluate, StopsWhenAsked) {
  const SmallData data(64, 21);
  Spec spec = data.spec();
  spec.purpose = Purpose::Evaluate;
  const auto training = make_training(spec);
  Inputs test(*training, *spec.data.test);
  plan_last_batch(*training, test);
  training->session->open();
  int asked = 0;
  const Score score = evaluate(*training, test, [&] { return ++asked > 1; });
  EXPECT_TRUE(score.stopped);
  EXPECT_EQ(score.samples, 8);
}

TEST(Start, AGivenRateCountsMoreThanThatOfTheFile) {
  const SmallData data(64, 16);
  const std::string path = data.folder() + "/weights";
  Spec spec = data.spec();
  spec.learning_rate = 0.002;
  {
    const auto training = make_training(spec);
    TrainingLoop loop(*training, {.steps = 3});
    loop.open();
    Listener listener;
    loop.run(listener);
    session::save_weights(*training->session, training->graph, path);
  }
  const auto start = [&](std::optional<double> rate) {
    const auto training = make_training(small_spec());
    training->session->open();
    return load_start(*training, path, rate);
  };
  const StartingPoint kept = start({});
  EXPECT_EQ(kept.steps, 3);
  EXPECT_FLOAT_EQ(kept.learning_rate, 0.002F);
  EXPECT_EQ(kept.rate_origin, StartingPoint::RateOrigin::File);
  const StartingPoint given = start(0.03);
  EXPECT_FLOAT_EQ(given.learning_rate, 0.03F);
  EXPECT_EQ(given.rate_origin, StartingPoint::RateOrigin::Given);
}

}  // namespace
}  // namespace plimsoll::train
