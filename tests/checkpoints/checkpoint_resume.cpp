// 100 steps are 50 steps, a checkpoint, and 50 steps: the same bits in every variable and in every metric.
#include <cmath>
#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/callback.h>
#include <plimsoll/error.h>
#include "base/crc32c.h"
#include "input/files.h"
#include "support/sanitizer.h"
#include "train/checkpoint_store.h"
#include "train/loop.h"

namespace plimsoll::checkpoints {
namespace {

using testing::TemporaryDirectory;

// Images of random numbers; samples are shuffled.
train::Spec spec_of(const TemporaryDirectory& files, const char* model, int64_t size, int64_t samples) {
  std::vector<float> x(static_cast<size_t>(samples * size * size));
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * i % 977));
  std::vector<int32_t> y(static_cast<size_t>(samples));
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int32_t>(i * i % 3);
  for (const char* half : {"train", "test"}) {
    files.write(fmt::format("x_{}.npy", half),
                testing::npy("'<f4'", fmt::format("({}, 1, {}, {})", samples, size, size), testing::raw(x)));
    files.write(fmt::format("y_{}.npy", half), testing::npy("'<i4'", fmt::format("({},)", samples), testing::raw(y)));
  }
  train::Spec spec;
  spec.model = model;
  spec.model_options.image_size = size;
  spec.model_options.channels = 1;
  spec.model_options.classes = 3;
  spec.batch = 4;
  spec.line = GiB;
  spec.threads = 1;
  spec.data = input::open_data({.path = files.path()}, find_model(spec.model, spec.model_options));
  return spec;
}

// Lowers the learning rate after some epochs, as a schedule with a memory of its own would.
struct Lowers : Callback {
  std::string name() const override { return "lowers"; }
  void before_training(FitRun&) override { epochs = 0; }
  void after_epoch(FitRun& run) override {
    if (++epochs % 2 == 0) run.set_learning_rate(run.learning_rate() * 0.7);
  }
  std::string state() const override { return std::to_string(epochs); }
  void restore(const std::string& state) override { epochs = std::stoi(state); }
  int epochs = 0;
};

struct Result {
  std::vector<std::pair<std::string, uint32_t>> checksums;  // of all variables, the optimiser's too
  std::vector<EpochLog> epochs;
  int64_t steps = 0;
};

// Goes on where the folder has a checkpoint.
Result train(const train::Spec& spec, const std::string& folder, int64_t steps) {
  const auto training = train::make_training(spec);
  train::TrainingLoop loop(*training, {.epochs = 1000, .steps = steps},
                           {checkpoint(folder, {.every_steps = 40, .resume = true}), std::make_shared<Lowers>()});
  loop.open();
  Result result;
  result.epochs = loop.run().epochs;
  result.steps = loop.steps();
  for (const graph::Variable& variable : training->graph.body().variables())
    result.checksums.emplace_back(training->graph.body().name(training->graph.body().value(variable.value)),
                                  crc32c(training->session->peek({training->graph, variable.value})));
  return result;
}

class CheckpointResume : public ::testing::Test {
 protected:
  // Stops after the first half, or a little later, and goes on as `change` says.
  void expect_same(
      const train::Spec& spec, int64_t steps, int64_t first,
      const std::function<void(train::Spec&)>& change = [](train::Spec&) {}) {
    const Result whole = train(spec, files.path() + "/whole", steps);
    train::Spec other = spec;
    change(other);
    const std::string folder = files.path() + "/parts";
    EXPECT_EQ(train(spec, folder, first).steps, first);
    const Result rest = train(other, folder, steps);
    EXPECT_EQ(rest.steps, steps);
    EXPECT_EQ(rest.checksums, whole.checksums);
    EXPECT_EQ(rest.epochs, whole.epochs);
  }
  const TemporaryDirectory files;
};

// An epoch has 11 steps.
TEST_F(CheckpointResume, InTheMiddleOfAnEpoch) { expect_same(spec_of(files, "fashion", 8, 44), 100, 50); }

TEST_F(CheckpointResume, AtTheEndOfAnEpoch) { expect_same(spec_of(files, "fashion", 8, 44), 100, 55); }

Bytes smallest_line(train::Spec spec) {
  spec.line = 1;
  try {
    train::make_training(spec);
  } catch (const DoesNotFit& e) {
    return e.refusal().smallest_line;
  }
  return 0;
}

TEST_F(CheckpointResume, UnderAnotherLineWithOtherThreads) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  train::Spec spec = spec_of(files, "fashion", 28, 176);
  spec.batch = 44;
  spec.levers = {.order = false, .in_place = false, .variants = false, .recompute = false, .micro_batch = false};
  spec.masks = false;
  const auto roomy = train::make_training(spec);
  expect_same(spec, 10, 5, [&](train::Spec& other) {
    other.threads = 2;
    other.masks = true;
    other.levers = {.micro_batch = false};  // micro-batches round differently
    other.line = smallest_line(other);
    EXPECT_LT(train::make_training(other)->session->arena_bytes(), roomy->session->arena_bytes());
  });
}

// Masks change at steps 10, 17, 24 ... 87.
TEST_F(CheckpointResume, InTheMiddleOfPruning) {
  train::Spec spec = spec_of(files, "fashion", 8, 44);
  spec.pruning = Pruning{.from = 0.3, .to = 0.8, .begin = 10, .end = 90, .frequency = 7};
  expect_same(spec, 100, 50);
}

TEST_F(CheckpointResume, BeforeAStepThatPrunes) {
  train::Spec spec = spec_of(files, "fashion", 8, 44);
  spec.pruning = Pruning{.to = 0.7, .begin = 1, .frequency = 3};
  spec.accumulate = 2;
  expect_same(spec, 40, 18);
}

TEST_F(CheckpointResume, WithBatchNorm) { expect_same(spec_of(files, "mobilenet_v2", 32, 20), 12, 6); }

}  // namespace
}  // namespace plimsoll::checkpoints
