#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/plimsoll.h>
#include "input/files.h"
#include "support/error_of.h"
#include "train/circle.h"

namespace plimsoll {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

// Points with a sample weight each.
struct Points : testing::Circle {
  explicit Points(int64_t count) : Circle(count) {
    for (int64_t i = 0; i < count; ++i) weight.push_back(static_cast<float>(i % 3));
  }
  Dataset weighed() const { return Dataset::slices({{"x", x, {samples, 2}}, {"y", y}, {"w", weight}}); }
  std::vector<float> weight;
};

Model classifier() { return sequential({layers::dense(16, {.activation = "relu"}), layers::dense(3)}); }

CompileOptions plain() {
  return {.optimiser = Optimiser::adam(0.02), .loss = "sparse_cross_entropy", .metrics = {"accuracy"}};
}

TEST(Fit, LearnsAndKeepsItsWeightsBetweenCalls) {
  const Points points(200);
  const Dataset train = points.dataset().shuffle().batch(32), test = points.dataset().batch(32);
  MemoryLine line(64 * MiB);
  Model net = classifier();
  net.compile(plain());
  const History history = net.fit(train, line, {.epochs = 20, .validation = test});
  ASSERT_EQ(history.epochs.size(), 20U);
  EXPECT_EQ(history.epochs[0].steps, 7) << "the last batch, of 8 samples, is trained too";
  EXPECT_EQ(history.validation_samples, 200);
  EXPECT_GT(history["val_accuracy"].back(), 0.9);
  EXPECT_LT(history["loss"].back(), 0.5 * history["loss"].front());
  const Evaluation evaluation = net.evaluate(test, line);
  EXPECT_EQ(evaluation.samples, 200);
  EXPECT_EQ(evaluation["loss"], history["val_loss"].back());
  EXPECT_EQ(evaluation["accuracy"], history["val_accuracy"].back());
  // Another batch needs another session: the weights go there through a file.
  EXPECT_NEAR(net.evaluate(points.dataset().batch(50), line)["loss"], evaluation["loss"], 1e-6);
  const History more = net.fit(train, line, {.epochs = 21, .initial_epoch = 20});
  EXPECT_EQ(more.epochs.at(0).epoch, 21);
  EXPECT_LT(more["loss"].back(), 1.2 * history["loss"].back());
}

TEST(Fit, EqualsTrainingWithoutAStopBetween) {
  const Points points(96);
  const Dataset train = points.dataset().shuffle(96, 3).batch(32);
  const auto losses = [&](bool moves, bool evaluates) {
    MemoryLine line(64 * MiB);
    Model net = classifier();
    net.compile(plain());
    std::vector<double> all = net.fit(train, line, {.epochs = 3})["loss"];
    if (evaluates) net.evaluate(points.dataset().batch(96), line);
    if (moves) net.release();
    for (const double loss : net.fit(train, line, {.epochs = 6, .initial_epoch = 3})["loss"]) all.push_back(loss);
    return all;
  };
  MemoryLine line(64 * MiB);
  Model net = classifier();
  net.compile(plain());
  const std::vector<double> whole = net.fit(train, line, {.epochs = 6})["loss"];
  EXPECT_EQ(losses(false, false), whole);
  EXPECT_EQ(losses(true, false), whole);
  EXPECT_EQ(losses(false, true), whole);
}

TEST(Fit, TheStateOfALoadedOptimiserOutlivesAnEvaluation) {
  const Points points(96);
  const Dataset train = points.dataset().shuffle(96, 3).batch(32);
  const testing::TemporaryDirectory folder;
  const std::string path = folder.path() + "/weights";
  const auto losses = [&](bool evaluates) {
    MemoryLine line(64 * MiB);
    Model net = classifier();
    net.compile(plain());
    net.fit(train, line, {.epochs = 3});
    net.save_weights(path);
    Model again = classifier();
    again.compile(plain());
    again.load_weights(path);
    if (evaluates) {
      again.evaluate(points.dataset().batch(96), line);
      again.save_weights(path + "2");
      again.load_weights(path + "2");
      again.evaluate(points.dataset().batch(96), line);
    }
    return again.fit(train, line, {.epochs = 6, .initial_epoch = 3})["loss"];
  };
  EXPECT_EQ(losses(true), losses(false));
}

TEST(Fit, GivesItsBytesBack) {
  const Points points(64);
  MemoryLine line(64 * MiB);
  {
    Model net = classifier();
    net.compile(plain());
    net.fit(points.dataset().batch(32), line);
    EXPECT_GT(line.used(), 0);
    net.release();
    EXPECT_EQ(line.used(), 0);
    net.predict(points.dataset().batch(32), line);
    EXPECT_GT(line.used(), 0);
  }
  EXPECT_EQ(line.used(), 0) << "with the last handle of the model";
}

TEST(Fit, WeightsOfSamplesAndClassesWeighTheLoss) {
  const Points points(60);
  MemoryLine line(64 * MiB);
  // A rate of 0: the loss is that of the initial weights.
  const auto loss_of = [&](const Dataset& data, const FitOptions& options) {
    Model net = classifier();
    net.compile({.optimiser = Optimiser::sgd(0), .loss = "sparse_cross_entropy"});
    return net.fit(data.batch(20), line, options)["loss"].back();
  };
  const Dataset all = points.weighed();
  double parts[3];
  for (int64_t label = 0; label < 3; ++label) {
    std::map<int64_t, double> only{{0, 0}, {1, 0}, {2, 0}};
    only[label] = 1;
    parts[label] = loss_of(points.dataset(), {.class_weight = only});
  }
  const double whole = loss_of(points.dataset(), {});
  EXPECT_NEAR(parts[0] + parts[1] + parts[2], whole, 1e-5);
  EXPECT_NEAR(loss_of(points.dataset(), {.class_weight = {{1, 4}}}), whole + 3 * parts[1], 1e-4);
  // Weights 0, 1, 2 in turn: divided by the number of samples, not by their sum.
  Model net = classifier();
  net.compile({.optimiser = Optimiser::sgd(0), .loss = "sparse_cross_entropy"});
  double expected = 0;
  for (int64_t i = 0; i < 60; ++i)
    expected += static_cast<double>(points.weight[static_cast<size_t>(i)]) *
                net.evaluate(points.dataset().skip(i).take(1).batch(1), line)["loss"] / 60;
  EXPECT_NEAR(loss_of(all, {.sample_weight = "w"}), expected, 1e-4);
}

TEST(Fit, SplitsOffTheLastSamplesBeforeShuffling) {
  const Points points(100);
  MemoryLine line(64 * MiB);
  Model net = classifier();
  net.compile(plain());
  const History history = net.fit(points.dataset(), line, {.epochs = 2, .batch = 16, .validation_split = 0.25});
  EXPECT_EQ(history.epochs[0].steps, 5);
  EXPECT_EQ(history.validation_samples, 25);
  EXPECT_NEAR(net.evaluate(points.dataset().skip(75).batch(16), line)["loss"], history["val_loss"].back(), 1e-6);
}

TEST(Fit, AnEpochCanBeANumberOfSteps) {
  const Points points(64);
  MemoryLine line(64 * MiB);
  const auto losses = [&](int64_t steps_per_epoch, int64_t epochs) {
    Model net = classifier();
    net.compile(plain());
    std::vector<float> all;
    const auto listen = custom_callback({.after_step = [&](FitRun& run) {
      all.push_back(static_cast<float>(*run.log("loss") * static_cast<double>(run.epoch_steps())));
    }});
    net.fit(points.dataset().batch(16), line,
            {.epochs = epochs, .steps_per_epoch = steps_per_epoch, .callbacks = {listen}});
    return all.size();
  };
  EXPECT_EQ(losses(3, 4), 12U) << "three epochs of the data";
  Model net = classifier();
  net.compile(plain());
  const History sixes = net.fit(points.dataset().batch(16), line, {.epochs = 2, .steps_per_epoch = 6});
  EXPECT_EQ(sixes.epochs[1].steps, 6);
  Model forever = classifier();
  forever.compile(plain());
  EXPECT_EQ(forever.fit(points.dataset().batch(16).repeat(), line, {.epochs = 2, .steps_per_epoch = 6}).epochs,
            sixes.epochs)
      << "the same data, whoever starts it again";
  EXPECT_THAT(error_of([&] { forever.fit(points.dataset().batch(16).repeat(), line); }), HasSubstr("has no end"));
}

TEST(Fit, ValidatesAsOftenAndAsLongAsAsked) {
  const Points points(64);
  MemoryLine line(64 * MiB);
  Model net = classifier();
  net.compile(plain());
  const Dataset data = points.dataset().batch(16);
  const History history =
      net.fit(data, line, {.epochs = 5, .validation = data.repeat(), .validation_frequency = 2, .validation_steps = 3});
  EXPECT_EQ(history["val_loss"].size(), 2U);
  EXPECT_EQ(history.validation_samples, 48);
}

// Two inputs, two outputs, one loss each.
TEST(Fit, TrainsModelsOfSeveralInputsAndOutputs) {
  const int64_t count = 120;
  std::vector<float> left, right, sum, product;
  for (int64_t i = 0; i < count; ++i) {
    left.push_back(static_cast<float>(i % 7) / 7);
    right.push_back(static_cast<float>(i % 5) / 5);
    sum.push_back(left.back() + right.back());
    product.push_back(left.back() > right.back() ? 1.0F : 0.0F);
  }
  const Dataset data = Dataset::slices({{"larger", product}, {"right", right}, {"left", left}, {"sum", sum}}).batch(20);
  Model net("pair", {"left", "right"}, {"sum", "larger"}, [](const NamedTensors& in, bool) {
    const Tensor both = concat({expand_dims(in["left"], 1), expand_dims(in["right"], 1)}, 1);
    const Tensor hidden = layers::dense(both, 16, {.activation = "relu"}, "hidden");
    return NamedTensors{{"sum", layers::dense(hidden, 1, {}, "sum")},
                        {"larger", layers::dense(hidden, 1, {}, "larger")}};
  });
  net.compile({.optimiser = Optimiser::adam(0.02),
               .losses = {{"sum", "mse"}, {"larger", "binary_cross_entropy"}},
               .loss_weights = {{"sum", 2}},
               .metrics = {Metric::accuracy().of("larger"), Metric::mae().of("sum")}});
  MemoryLine line(64 * MiB);
  const History history = net.fit(data, line, {.epochs = 60, .validation = data});
  EXPECT_GT(history["larger_accuracy"].back(), 0.9);
  EXPECT_LT(history["sum_mae"].back(), 0.05);
  EXPECT_NEAR(history["loss"].back(), 2 * history["sum_loss"].back() + history["larger_loss"].back(), 1e-5);
  int64_t rows = 0;
  net.predict(data, line, {.sink = [&](const Results& outputs, int64_t samples) {
                EXPECT_EQ(outputs.size(), 2U);
                rows += samples;
              }});
  EXPECT_EQ(rows, count);
}

TEST(Fit, TakesAnObjectiveOfOnesOwn) {
  const Points points(64);
  Model net("copy", [](Tensor x, bool) { return layers::dense(x, 2); });
  net.compile(
      {.optimiser = Optimiser::adam(0.05), .objective = [](const NamedTensors& out, const NamedTensors& targets) {
         return mean_squared_error(out["output"], targets["wanted"]);
       }});
  const Dataset data = Dataset::slices({{"x", points.x, {64, 2}}, {"wanted", points.x, {64, 2}}}).batch(16);
  MemoryLine line(64 * MiB);
  const History history = net.fit(data, line, {.epochs = 40});
  EXPECT_LT(history["loss"].back(), 0.01);
}

TEST(Fit, PlansBeforeAndNamesWhatWorks) {
  const Points points(64);
  const Dataset data = points.dataset().batch(32);
  Model net = sequential({layers::dense(2000, {.activation = "relu"}), layers::dense(3)});
  net.compile(plain());
  MemoryLine wide(64 * MiB);
  const Forecast fits = net.plan(data, wide);
  EXPECT_TRUE(fits.fits());
  EXPECT_EQ(wide.used(), 0);
  MemoryLine narrow(100 * KiB);
  const Forecast refused = net.plan(data, narrow);
  EXPECT_FALSE(refused.fits());
  EXPECT_GT(refused.smallest_line(), narrow.limit());
  EXPECT_FALSE(refused.remedies().empty());
  EXPECT_THROW(net.fit(data, narrow), DoesNotFit);
  MemoryLine enough(refused.smallest_line());
  EXPECT_EQ(net.fit(data, enough).epochs.size(), 1U) << "the line that is named works";
  EXPECT_LE(enough.peak(), enough.limit());
}

TEST(Fit, RefusesWhatMakesNoSense) {
  const Points points(64);
  const Dataset data = points.dataset().batch(16);
  MemoryLine line(64 * MiB);
  Model net = classifier();
  EXPECT_THAT(error_of([&] { net.fit(data, line); }), HasSubstr("'sequential' is not compiled; call compile"));
  EXPECT_THAT(error_of([&] { net.save_weights("x"); }), HasSubstr("no weights to save yet"));
  net.compile({.metrics = {"accuracy"}});
  EXPECT_THAT(error_of([&] { net.fit(data, line); }), HasSubstr("has no loss"));
  net.compile(plain());
  const auto refusal = [&](const FitOptions& options) { return error_of([&] { net.fit(data, line, options); }); };
  EXPECT_THAT(error_of([&] { net.fit(points.dataset(), line); }), HasSubstr("add .batch(32) to the dataset"));
  EXPECT_THAT(refusal({.validation_split = 0.5}), HasSubstr("needs a dataset of samples"));
  EXPECT_THAT(refusal({.batch = 16}), HasSubstr("batch is given for a dataset whose elements are batches already"));
  const Dataset stages = points.dataset().batch(16).prefetch(2);
  EXPECT_THAT(error_of([&] { net.fit(stages, line, {.batch = 2}); }), HasSubstr("whose elements are batches already"));
  EXPECT_EQ(error_of([&] { net.fit(points.dataset().batch(16).unbatch(), line, {.batch = 16, .shuffle = false}); }),
            "no error");
  EXPECT_THAT(refusal({.validation_steps = 3}), HasSubstr("need validation data"));
  EXPECT_THAT(refusal({.validation_frequency = 3}), HasSubstr("need validation data"));
  EXPECT_THAT(refusal({.validation = points.dataset().batch(8)}), HasSubstr("batches of the same size"));
  EXPECT_THAT(
      refusal({.validation = Dataset::slices({{"x", points.x, {64, 2}}}).batch(16)}),
      HasSubstr("the validation data has x f32[16,2] where the training data has x f32[16,2], y i32[16]; both must "
                "have the same 'y'"));
  EXPECT_THAT(refusal({.validation = Dataset::slices({{"x", points.x, {128, 1}}, {"y", points.x}}).batch(16)}),
              HasSubstr("both must have the same 'x'"));
  EXPECT_THAT(error_of([&] { net.fit(points.dataset().take(0).batch(16), line); }),
              HasSubstr("has no batch in epoch 1"));
  EXPECT_THAT(refusal({.class_weight = {{7, 1}}}),
              HasSubstr("weight for class 7, but the model has the classes 0 to 2"));
  EXPECT_THAT(refusal({.sample_weight = "z"}), HasSubstr("the dataset has no 'z' to weigh samples with"));
  EXPECT_THAT(refusal({.epochs = -1}), HasSubstr("epochs can't be negative"));
  EXPECT_THAT(refusal({.callbacks = {nullptr}}), HasSubstr("a callback is null"));
  EXPECT_THAT(error_of([&] {
                net.fit(Dataset::slices({{"x", points.x, {64, 2}}}).batch(16), line);
              }),
              HasSubstr("has a loss but the dataset has no target"));
  EXPECT_THAT(error_of([&] { net.fit(data, line)["los"]; }), HasSubstr("no 'los'; it has loss, accuracy"));
  EXPECT_THAT(error_of([] { Model().compile({}); }), HasSubstr("the model is empty"));
  net.compile({.losses = {{"outptu", "mse"}}});
  EXPECT_THAT(error_of([&] { net.fit(data, line); }), HasSubstr("a loss for 'outptu', but the outputs"));
}

TEST(Fit, AModelThatIsTrainedCanNotBeUsedByItsCallbacks) {
  const Points points(64);
  const Dataset data = points.dataset().batch(16);
  MemoryLine line(64 * MiB);
  Model net = classifier();
  net.compile(plain());
  const auto error_in_callback = [&](const std::function<void()>& call) {
    return error_of(
        [&] { net.fit(data, line, {.callbacks = {custom_callback({.after_step = [&](FitRun&) { call(); }})}}); });
  };
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"fit", [&] { net.fit(data, line); }},         {"evaluate", [&] { net.evaluate(data, line); }},
      {"predict", [&] { net.predict(data, line); }}, {"plan", [&] { net.plan(data, line); }},
      {"summary", [&] { net.summary(); }},           {"release", [&] { net.release(); }},
      {"compile", [&] { net.compile(plain()); }}};
  for (const auto& [name, call] : calls) EXPECT_THAT(error_in_callback(call), HasSubstr("is in use by a call")) << name;
  EXPECT_THAT(
      error_of([&] { net.predict(data, line, {.sink = [&](const Results&, int64_t) { net.fit(data, line); }}); }),
      HasSubstr("is in use by a call"));
  EXPECT_EQ(net.fit(data, line).epochs.size(), 1U) << "and can be used again after that";
  // The last handle of a model may be destroyed while the model is trained.
  EXPECT_EQ(error_in_callback([&] { net = Model(); }), "no error");
}

TEST(Fit, ClassesOfTheHalvesHaveTheSameNumbers) {
  const testing::TemporaryDirectory dir;
  std::string all = "a,b,y\n", some = "a,b,y\n";
  for (int i = 0; i < 30; ++i) {
    all += fmt::format("{},{},{}\n", i % 3, i % 2, i % 3 == 0 ? "ape" : i % 3 == 1 ? "bat" : "cat");
    if (i % 3 != 0) some += fmt::format("{},{},{}\n", i % 3, i % 2, i % 3 == 1 ? "bat" : "cat");
  }
  const std::string test_path = dir.write("b.csv", some);
  const Dataset train = Dataset::csv(dir.write("a.csv", all), {.label = "y"});
  MemoryLine line(64 * MiB);
  Model net = classifier();
  net.compile(plain());
  const Dataset own = Dataset::csv(test_path, {.label = "y"}).batch(10);
  EXPECT_THAT(error_of([&] { net.fit(train.batch(10), line, {.validation = own}); }),
              HasSubstr("has the classes bat, cat but the training data has ape, bat, cat"));
  const Dataset same = Dataset::csv(test_path, {.label = "y", .classes = train.class_names()}).batch(10);
  const History history = net.fit(train.batch(10), line, {.epochs = 60, .validation = same});
  EXPECT_GT(history["val_accuracy"].back(), 0.9);
  net.save(dir.path() + "/m");
  Model loaded = Model::load(dir.path() + "/m");
  EXPECT_EQ(loaded.preprocessing().class_names, train.class_names());
  loaded.compile(plain());
  EXPECT_THAT(error_of([&] { loaded.evaluate(own, line); }), HasSubstr("but the model has ape, bat, cat"));
  EXPECT_GT(loaded.evaluate(same, line)["accuracy"], 0.9);
}

}  // namespace
}  // namespace plimsoll
