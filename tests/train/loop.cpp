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
struct Listener : Callback {
  explicit Listener(int64_t most_steps = -1) : most(most_steps) {}
  std::string name() const override { return "listener"; }
  void before_training(FitRun& run) override { stop_in_time(run); }
  void after_step(FitRun& run) override {
    ++steps;
    samples += run.step_samples();
    stop_in_time(run);
  }
  void after_epoch(FitRun& run) override { epochs.push_back({run.epoch(), run.epoch_steps(), {}}); }
  void stop_in_time(FitRun& run) const {
    if (most >= 0 && steps >= most) run.stop("enough");
  }
  int64_t most;
  int64_t steps = 0, samples = 0;
  std::vector<EpochLog> epochs;
};

TEST(TrainingLoop, LearnsAndScoresEachEpoch) {
  const SmallData data(64, 21);
  Spec spec = data.spec();
  spec.learning_rate = 0.02;
  const auto training = make_training(spec);
  const auto listener = std::make_shared<Listener>();
  TrainingLoop loop(*training, {.epochs = 30}, {listener});
  EXPECT_EQ(loop.steps_per_epoch(), 8);
  loop.open();
  const History history = loop.run();
  EXPECT_FALSE(history.was_stopped());
  EXPECT_TRUE(history.has_trained());
  EXPECT_EQ(listener->steps, 30 * 8);
  EXPECT_EQ(listener->samples, 30 * 64);
  ASSERT_EQ(history.epochs.size(), 30U);
  ASSERT_EQ(listener->epochs.size(), 30U);
  EXPECT_LT(history["loss"].back(), 0.5 * history["loss"].front());
  EXPECT_GT(history["accuracy"].back(), 0.8);
  EXPECT_EQ(history.validation_samples, 21);
  EXPECT_EQ(history["val_loss"].size(), 30U);
  EXPECT_THAT(error_of([&] { history["val_los"]; }),
              HasSubstr("no 'val_los'; it has loss, accuracy, learning_rate, val_loss, val_accuracy"));
}

TEST(TrainingLoop, StopsWhenACallbackAsks) {
  const SmallData data(64, 16);
  const auto training = make_training(data.spec());
  const auto listener = std::make_shared<Listener>(11);
  TrainingLoop loop(*training, {.epochs = 5}, {listener});
  loop.open();
  const History history = loop.run();
  EXPECT_TRUE(history.was_stopped());
  EXPECT_EQ(listener->steps, 11);
  ASSERT_EQ(history.epochs.size(), 2U) << "an epoch that was cut short is reported too";
  EXPECT_EQ(history.epochs[1].steps, 3);
  EXPECT_TRUE(history.epochs[0].log("val_loss").has_value());
  EXPECT_FALSE(history.epochs[1].log("val_loss").has_value());
  EXPECT_EQ(listener->epochs.size(), 1U) << "but is not over";
  EXPECT_EQ(history.stop_reason, "enough");
}

TEST(TrainingLoop, StoppedBeforeTheFirstStepHasNotTrained) {
  const SmallData data(64, 16);
  const auto training = make_training(data.spec());
  const auto listener = std::make_shared<Listener>(0);
  TrainingLoop loop(*training, {}, {listener});
  loop.open();
  const History history = loop.run();
  EXPECT_TRUE(history.was_stopped());
  EXPECT_FALSE(history.has_trained());
  EXPECT_TRUE(history.epochs.empty());
}

TEST(TrainingLoop, ANumberOfStepsIsNoStop) {
  const SmallData data(64, 16);
  const auto training = make_training(data.spec());
  const auto listener = std::make_shared<Listener>();
  TrainingLoop loop(*training, {.epochs = 5, .steps = 9}, {listener});
  loop.open();
  const History history = loop.run();
  EXPECT_FALSE(history.was_stopped());
  EXPECT_EQ(listener->steps, 9);
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
  const auto listener = std::make_shared<Listener>();
  TrainingLoop loop(*training, {.epochs = 20, .advice = "try less"}, {listener});
  loop.open();
  EXPECT_THAT(error_of([&] { loop.run(); }), HasSubstr("though the data is finite; try less"));
}

TEST(Evaluate, AShortLastBatchCountsByItsSamples) {
  const SmallData data(64, 21);  // 8 + 8 + 5
  const auto scored = [&](int64_t batch) {
    Spec spec = data.spec();
    spec.purpose = Purpose::Evaluate;
    spec.batch = batch;
    const auto training = make_training(spec);
    Inputs test(*training, *spec.data.test);
    training->session->open();
    return evaluate(*training, test);
  };
  const Score cut = scored(8), whole = scored(21);
  EXPECT_EQ(cut.samples, 21);
  EXPECT_NEAR(cut.value("loss"), whole.value("loss"), 1e-5 * whole.value("loss"));
  EXPECT_DOUBLE_EQ(cut.value("accuracy"), whole.value("accuracy"));
  EXPECT_FALSE(cut.stopped);
}

TEST(Evaluate, HoldsNothingOfAnOptimiser) {
  const SmallData data(64, 21);
  Spec spec = data.spec();
  spec.optimiser = Optimiser::adam();
  const auto held = [&](Purpose purpose) {
    spec.purpose = purpose;
    int64_t count = 0;
    const auto training = make_training(spec);
    for (const graph::Variable& variable : training->graph.body().variables())
      count += variable.role() == VariableRole::Optimiser ? 1 : 0;
    return count;
  };
  EXPECT_GT(held(Purpose::Train), 0);
  EXPECT_EQ(held(Purpose::Evaluate), 0);
}

TEST(Evaluate, StopsWhenAsked) {
  const SmallData data(64, 21);
  Spec spec = data.spec();
  spec.purpose = Purpose::Evaluate;
  const auto training = make_training(spec);
  Inputs test(*training, *spec.data.test);
  training->session->open();
  int asked = 0;
  const Score score = evaluate(*training, test, {.is_stop_asked = [&] { return ++asked > 1; }});
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
    const auto listener = std::make_shared<Listener>();
    TrainingLoop loop(*training, {.steps = 3}, {listener});
    loop.open();
    loop.run();
    weights::save_weights(*training->session, training->graph, path);
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
