#include "train/run_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/error_of.h"
#include "train/loop.h"
#include "train/small_data.h"

namespace plimsoll::checkpoints {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::SmallData;

// Remembers the losses of all steps, and keeps state and weights after one of them.
struct Recorder : Callback {
  explicit Recorder(std::string file = {}, int64_t step = -1, bool stops = true)
      : path(std::move(file)), saved_step(step), stops_there(stops) {}
  std::string name() const override { return "recorder"; }
  void before_training(FitRun&) override { losses.clear(); }
  void after_step(FitRun& run) override {
    losses += std::to_string(*run.log("loss")) + " ";
    if (run.steps() != saved_step) return;
    run.save_weights(path);
    kept = train::loop_of(run).state();
    if (stops_there) run.stop("saved");
  }
  std::string state() const override { return losses; }
  void restore(const std::string& state) override { losses = state; }
  std::string path, losses;
  int64_t saved_step;
  bool stops_there;
  train::RunState kept;
};

struct Outcome {
  History history;
  std::string losses;
  train::RunState state;
};

Outcome train(const SmallData& data, const std::shared_ptr<Recorder>& recorder, const train::RunState* from = nullptr) {
  const auto training = train::make_training(data.spec());
  train::TrainingLoop loop(*training, {.epochs = 3}, {recorder});
  loop.open();
  if (from != nullptr) {
    loop.restore(*from);
    loop.load_weights(recorder->path);
  }
  Outcome outcome{.history = loop.run(), .losses = recorder->losses, .state = loop.state()};
  return outcome;
}

// In the middle of an epoch, and where the next has not started yet.
class RunStateAt : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Steps, RunStateAt, ::testing::Values(1, 7, 8, 9, 16, 23));

TEST_P(RunStateAt, GoingOnEqualsNotHavingStopped) {
  const SmallData data(64, 21);
  const Outcome whole = train(data, std::make_shared<Recorder>());
  const auto recorder = std::make_shared<Recorder>(data.folder() + "/weights", GetParam());
  const Outcome half = train(data, recorder);
  EXPECT_EQ(half.history.stop_reason, "saved");
  EXPECT_EQ(half.state, recorder->kept) << "the state when the run has ended is that after its last step";
  recorder->saved_step = -1;
  const Outcome rest = train(data, recorder, &half.state);
  EXPECT_EQ(rest.losses, whole.losses);
  EXPECT_EQ(rest.history.epochs, whole.history.epochs);
  EXPECT_EQ(rest.state, whole.state);
}

TEST(RunState, StoppedBeforeTheFirstStepStartsAtTheFirst) {
  const SmallData data(64, 21);
  const auto training = train::make_training(data.spec());
  struct Stopper : Callback {
    std::string name() const override { return "stopper"; }
    void before_training(FitRun& run) override { run.stop("at once"); }
  };
  train::TrainingLoop loop(*training, {.epochs = 3}, {std::make_shared<Stopper>()});
  loop.open();
  loop.run();
  const train::RunState state = loop.state();
  const auto again = train::make_training(data.spec());
  train::TrainingLoop next(*again, {.epochs = 1});
  next.open();
  next.restore(state);
  EXPECT_EQ(next.run().epochs.at(0).steps, 8);
}

TEST(RunState, OfAnotherTrainingIsRefused) {
  const SmallData data(64, 21);
  const auto training = train::make_training(data.spec());
  train::TrainingLoop loop(*training, {});
  train::RunState state = loop.state();
  loop.restore(state);
  state.seed = 7;
  EXPECT_THAT(error_of([&] { loop.restore(state); }), HasSubstr("has seed 7, not 1"));
  state.seed = 1;
  state.sums.pop_back();
  EXPECT_THAT(error_of([&] { loop.restore(state); }), HasSubstr("other metrics"));
}

// A callback that saves the state of others must run after them.
TEST(RunState, HoldsWhatCallbacksKnowAfterTheSameEvent) {
  const SmallData data(64, 21);
  struct Counter : Callback {
    std::string name() const override { return "counter"; }
    void after_epoch(FitRun&) override { ++epochs; }
    std::string state() const override { return std::to_string(epochs); }
    int epochs = 0;
  };
  struct Keeper : Callback {
    std::string name() const override { return "keeper"; }
    void after_epoch(FitRun& run) override { states.push_back(train::loop_of(run).state().callbacks.at(0).second); }
    bool runs_last() const override { return true; }
    std::vector<std::string> states;
  };
  const auto keeper = std::make_shared<Keeper>();
  const auto training = train::make_training(data.spec());
  train::TrainingLoop loop(*training, {.epochs = 2}, {keeper, std::make_shared<Counter>()});
  loop.open();
  loop.run();
  EXPECT_THAT(keeper->states, ::testing::ElementsAre("1", "2"));
}

}  // namespace
}  // namespace plimsoll::checkpoints
