#include "shrink/quantise.h"

#include <omp.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/plimsoll.h>
#include "base/random.h"
#include "shrink/int8_graph.h"
#include "store/model_file.h"
#include "train/training.h"

namespace plimsoll::shrink {
namespace {

using ::testing::HasSubstr;

template <class T>
NamedArray owned(const char* name, std::vector<T> numbers, const Dims& dims) {
  const auto owner = std::make_shared<const std::vector<T>>(std::move(numbers));
  return {name, dtype_of<T>(), dims, owner->data(), static_cast<Bytes>(owner->size() * sizeof(T)), owner};
}

// Images drawn evenly from [-1, 1), and a class for each.
Dataset images(int64_t samples, int64_t channels, int64_t size, int64_t batch, uint64_t key = 7) {
  std::vector<float> x(static_cast<size_t>(samples * channels * size * size));
  std::vector<int32_t> y(static_cast<size_t>(samples));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(2 * unit_real(mix_bits(key, i)) - 1);
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int32_t>(i % 3);
  return Dataset::slices(
             {owned("x", std::move(x), {samples, channels, size, size}), owned("y", std::move(y), {samples})})
      .batch(batch);
}

// 10 log10 of the power of the numbers over that of their difference.
double signal_to_noise(const std::vector<float>& expected, const std::vector<float>& got) {
  double signal = 0, noise = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    signal += std::pow(static_cast<double>(expected[i]), 2);
    noise += std::pow(static_cast<double>(expected[i]) - static_cast<double>(got[i]), 2);
  }
  return 10 * std::log10(signal / std::max(noise, 1e-30));
}

Model trained_of(const Dataset& data, const MemoryLine& line, Model net) {
  net.compile({.optimiser = Optimiser::sgd(0.01), .loss = "sparse_cross_entropy", .metrics = {"accuracy"}});
  net.fit(data, line, {.epochs = 1});
  return net;
}

Model small_net() {
  using namespace layers;
  return sequential({conv2d(16, 3, {.padding = "same", .activation = "relu"}), max_pool(2), batch_norm(),
                     conv2d(32, 3, {.padding = "same"}), batch_norm(), layers::activation("relu"), flatten(),
                     dense(64, {.activation = "relu"}), dense(3)},
                    "small");
}

TEST(Quantise, GivesASmallerModelOfNearlyTheSameOutputs) {
  const MemoryLine line(GiB);
  const Dataset data = images(48, 4, 12, 16);
  Model net = trained_of(data, line, small_net());
  const Prediction expected = net.predict(data, line);
  for (const char* calibration : {"minmax", "percentile", "entropy"}) {
    QuantiseReport report;
    Model small = net.quantise(data, line, {.calibration = calibration, .all = true}, &report);
    const Prediction got = small.predict(data, line);
    EXPECT_EQ(got.dims, expected.dims);
    EXPECT_GT(signal_to_noise(expected.numbers, got.numbers), 25) << calibration;
    EXPECT_EQ(report.samples, 48);
    EXPECT_LT(report.file_bytes_after, report.file_bytes_before * 0.3);
    EXPECT_LT(report.memory_bytes_after, report.memory_bytes_before * 0.3);
    EXPECT_EQ(report.layers.size(), 4U);
    small.evaluate(data, line);
  }
}

TEST(Quantise, TheModelIsSavedAndLoaded) {
  const MemoryLine line(GiB);
  const Dataset data = images(20, 4, 12, 10);
  Model small = trained_of(data, line, small_net()).quantise(data, line, {.all = true});
  const std::string path = ::testing::TempDir() + "quantised.plimsoll";
  small.save(path);
  const Prediction expected = small.predict(data, line);
  EXPECT_EQ(Model::load(path).predict(data, line).numbers, expected.numbers);
  std::filesystem::remove_all(path);
}

// Blocks of bytes would be mostly empty in a convolution of three channels: the cost rule leaves it in f32, and so does
// the plan.
TEST(Quantise, StaysInFloatsWhereThatIsCheaper) {
  using namespace layers;
  const MemoryLine line(GiB);
  const Dataset data = images(16, 3, 24, 8);
  Model net = trained_of(
      data, line,
      sequential({conv2d(8, 5, {.padding = "same", .activation = "relu"}, "few"), flatten(), dense(256), dense(3)}));
  QuantiseReport report;
  Model small = net.quantise(data, line, {}, &report);
  ASSERT_EQ(report.layers.size(), 3U);
  EXPECT_THAT(report.layers[0].name, HasSubstr("few"));
  EXPECT_FALSE(report.layers[0].is_int8);
  EXPECT_TRUE(report.layers[1].is_int8);
  const std::string path = ::testing::TempDir() + "mixed_quantised";
  small.save(path);
  train::Spec spec;
  spec.own_model = std::make_shared<const ModelSpec>(store::read_model(path).spec);
  spec.purpose = train::Purpose::Predict;
  spec.line = GiB;
  const auto planned = train::make_training(spec);
  std::map<std::string_view, int> tasks;
  for (const lower::ProgramTask& task : planned->main_step().program.tasks)
    if (task.op != nullptr) ++tasks[task.op->name];
  EXPECT_EQ(tasks["conv2d"], 1);
  EXPECT_EQ(tasks["int8_conv2d"], 0);
  EXPECT_GE(tasks["int8_dense"], 1);
  std::filesystem::remove_all(path);
  // All that can be is int8 where that is asked for.
  net.quantise(data, line, {.all = true}, &report);
  EXPECT_TRUE(report.layers[0].is_int8);
}

TEST(Quantise, ThreadsAndLinesDoNotChangeABit) {
  const MemoryLine line(GiB);
  const Dataset data = images(20, 4, 12, 10);
  Model small = trained_of(data, line, small_net()).quantise(data, line, {.all = true});
  const Prediction expected = small.predict(data, line);
  const int before = omp_get_max_threads();
  for (const int threads : {1, 2, 3, 5}) {
    small.release();
    omp_set_num_threads(threads);
    EXPECT_EQ(small.predict(data, line).numbers, expected.numbers) << threads << " threads";
  }
  omp_set_num_threads(before);
  Bytes bytes = 64 * MiB;
  int smaller = 0;
  for (; smaller < 24; ++smaller, bytes = bytes * 3 / 4) {
    small.release();
    try {
      EXPECT_EQ(small.predict(data, MemoryLine(bytes)).numbers, expected.numbers) << format_bytes(bytes);
    } catch (const DoesNotFit&) {
      break;
    }
  }
  EXPECT_GT(smaller, 3) << "lines that fit";
  EXPECT_LT(smaller, 24) << "some line is too small";
}

// Outputs of large models with random weights: batch norms, residual sums, depthwise filters and relu6.
void expect_near(const std::string& name, int64_t size, double decibels) {
  const MemoryLine line(2 * GiB);
  const ModelSpec spec = find_model(name, {.image_size = size, .classes = 10});
  const Dataset data = images(16, 3, size, 8);
  Model net = spec.model;
  const Prediction expected = net.predict(data, line);
  QuantiseReport report;
  Model small = net.quantise(data, line, {.all = true}, &report);
  const double found = signal_to_noise(expected.numbers, small.predict(data, line).numbers);
  ::testing::Test::RecordProperty("decibels", std::to_string(found));
  EXPECT_GT(found, decibels);
  EXPECT_LT(report.memory_bytes_after, report.memory_bytes_before * 0.3);
  EXPECT_LT(report.file_bytes_after, report.file_bytes_before * 0.3);
  for (const QuantisedLayer& layer : report.layers) EXPECT_TRUE(layer.is_int8) << layer.name;
}

TEST(Quantise, KeepsTheOutputsOfResnet18) { expect_near("resnet18", 32, 20); }
TEST(Quantise, KeepsTheOutputsOfMobilenet) { expect_near("mobilenet_v2", 32, 15); }

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Quantise, RefusesWhatCanNotBeQuantised) {
  const MemoryLine line(GiB);
  const Dataset data = images(20, 4, 12, 10);
  Model net = trained_of(data, line, small_net());
  Model small = net.quantise(data, line, {.all = true});
  EXPECT_THAT(refusal([&] { small.quantise(data, line); }), HasSubstr("quantised already"));
  EXPECT_THAT(refusal([&] { net.quantise(data.take(0), line); }), HasSubstr("no samples"));
  EXPECT_THAT(refusal([&] { net.quantise(images(4, 4, 10, 2), line); }),
              HasSubstr("calibration data of f32[B,4,10,10] does not suit the trained model"));
  EXPECT_THAT(refusal([&] { net.quantise(data, line, {.calibration = "guess"}); }), HasSubstr("percentile"));
  EXPECT_THAT(refusal([&] { net.quantise(data, line, {.bins = 3}); }), HasSubstr("128 to 8192"));
  EXPECT_THAT(refusal([&] { small.fit(data, line); }), HasSubstr("can't be trained"));
  std::vector<float> numbers(4 * 4 * 12 * 12, 1.0F);
  numbers[100] = NAN;
  std::vector<int32_t> classes(4);
  const Dataset bad = Dataset::slices({owned("x", numbers, {4, 4, 12, 12}), owned("y", classes, {4})}).batch(2);
  EXPECT_THAT(refusal([&] { net.quantise(bad, line); }), HasSubstr("not finite"));
  Model nothing = trained_of(data, line, sequential({layers::flatten(), layers::layer_norm()}, "nothing"));
  EXPECT_THAT(refusal([&] { nothing.quantise(data, line); }), HasSubstr("nothing to quantise"));
}

TEST(Calibrate, ScalesHoldZeroExactly) {
  EXPECT_EQ(scale_of({0, 255}).zero, 0);
  EXPECT_EQ(scale_of({0, 255}).scale, 1);
  EXPECT_EQ(scale_of({-255, 0}).zero, 255);
  EXPECT_EQ(scale_of({-64, 191}).zero, 64);
  EXPECT_EQ(scale_of({0, 0}).zero, 0);
}

TEST(Calibrate, PercentilesCutOutliers) {
  ValueHistogram histogram{8, std::vector<int64_t>(2048)};
  for (size_t bin = 1024; bin < 1152; ++bin) histogram.counts[bin] = 1000;  // [0, 1)
  histogram.counts[2047] = 1;
  EXPECT_NEAR(percentile_range(histogram, {0, 8}, 99.9).high, 1, 0.01);
  EXPECT_EQ(percentile_range(histogram, {0, 8}, 99.9).low, 0);
  EXPECT_NEAR(percentile_range(histogram, {0, 8}, 100).high, 8, 0.01);
}

// With as many bins as levels there is one candidate, all of the range; with more, a lone outlier is cut.
TEST(Calibrate, EntropyCutsWhatTellsLittle) {
  ValueHistogram coarse{8, std::vector<int64_t>(128, 10)};
  EXPECT_EQ(entropy_range(coarse, {-8, 7.5}).high, 7.5);
  EXPECT_EQ(entropy_range(coarse, {-8, 7.5}).low, -8);
  ValueHistogram fine{8, std::vector<int64_t>(2048)};
  for (size_t bin = 0; bin < 128; ++bin)
    fine.counts[1024 + bin] = fine.counts[1023 - bin] = static_cast<int64_t>(1000 + 37 * (bin % 11));
  fine.counts[2047] = 1;
  EXPECT_LT(entropy_range(fine, {-1, 8}).high, 4);
  EXPECT_GE(entropy_range(fine, {-1, 8}).high, 0.4);
}

}  // namespace
}  // namespace plimsoll::shrink
