// Batches as a step reads them: bytes stay bytes, in memory that the step may read in place.
#include "train/inputs.h"
#include "support/sanitizer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "forecast/batch_search.h"
#include "input/files.h"
#include "support/error_of.h"
#include "train/loop.h"
#include "train/small_data.h"

namespace plimsoll::train {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::idx;
using testing::npy;
using testing::raw;
using testing::small_spec;
using testing::TemporaryDirectory;

constexpr int64_t kSamples = 40;

std::vector<uint8_t> pixels() {
  std::vector<uint8_t> bytes(static_cast<size_t>(kSamples * testing::kPixels));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * i % 251);
  return bytes;
}

std::vector<uint8_t> labels() {
  std::vector<uint8_t> numbers(static_cast<size_t>(kSamples));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<uint8_t>(i % 3);
  return numbers;
}

// The same images as bytes and as reals.
struct TwoForms {
  TwoForms() {
    std::vector<float> reals;
    for (const uint8_t byte : pixels()) reals.push_back(static_cast<float>(byte) * Preprocessing().byte_scale);
    bytes_x = dir.write("bytes_x", idx(0x08, {40, 4, 4}, raw(pixels())));
    reals_x = dir.write("reals_x.npy", npy("'<f4'", "(40, 4, 4)", raw(reals)));
    y = dir.write("y", idx(0x08, {40}, raw(labels())));
  }
  Spec spec(const std::string& x) const {
    Spec spec = small_spec();
    spec.data = input::open_data({.files = {.train_x = x, .train_y = y, .test_x = x, .test_y = y}},
                                 find_model(spec.model, spec.model_options));
    return spec;
  }
  TemporaryDirectory dir;
  std::string bytes_x, reals_x, y;
};

std::vector<double> losses_of(const Spec& spec) {
  const auto training = make_training(spec);
  TrainingLoop loop(*training, {.epochs = 3});
  loop.open();
  std::vector<double> losses;
  for (const EpochLog& epoch : loop.run().epochs)
    for (const LogValue& log : epoch.logs) losses.push_back(log.value);
  return losses;
}

TEST(Inputs, BytesStayBytesUntilTheStepConvertsThem) {
  const TwoForms forms;
  const Spec bytes = forms.spec(forms.bytes_x), reals = forms.spec(forms.reals_x);
  const auto of_bytes = make_training(bytes), of_reals = make_training(reals);
  EXPECT_EQ(of_bytes->passes.input().dtype(), DType::U8);
  EXPECT_EQ(of_reals->passes.input().dtype(), DType::F32);
  EXPECT_EQ(losses_of(bytes), losses_of(reals));
}

TEST(Inputs, HalvesOfDifferentTypesBecomeTheModels) {
  const TwoForms forms;
  Spec spec = forms.spec(forms.bytes_x);
  const std::vector<double> as_bytes = losses_of(spec);
  spec.data.test = forms.spec(forms.reals_x).data.test;
  EXPECT_EQ(make_training(spec)->passes.input().dtype(), DType::F32);
  EXPECT_EQ(losses_of(spec), as_bytes);
}

// Rows of 784 bytes: micro-batches begin where nothing is aligned.
TEST(Inputs, MicroBatchesReadBytesInPlace) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  constexpr uint32_t kCount = 198;
  const TemporaryDirectory dir;
  std::string images(kCount * 784, 0), numbers(kCount, 0);
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<char>(i * i % 251);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<char>(i % 10);
  Spec whole;
  whole.model = "fashion";
  whole.batch = 99;
  whole.line = GiB;
  whole.data = input::open_data({.files = {.train_x = dir.write("x", idx(0x08, {kCount, 28, 28}, images)),
                                           .train_y = dir.write("y", idx(0x08, {kCount}, numbers))}},
                                find_model("fashion"));
  Spec split = whole;
  split.levers.recompute = false;
  split.line = MiB;
  split.line = forecast::attempt(split).refusal->smallest_line + MiB;
  const auto training = make_training(split);
  const std::vector<int64_t>& parts = training->main_step().plan.micro_batches;
  ASSERT_GT(parts.size(), 1U);
  ASSERT_NE(parts[0] * 784 % kAlignment, 0);
  const std::vector<double> losses = losses_of(split), whole_losses = losses_of(whole);
  EXPECT_NEAR(losses[0], whole_losses[0], 1e-4 * whole_losses[0]);
}

TEST(Inputs, BatchesAreAlignedAndPadded) {
  const TwoForms forms;
  Spec spec = forms.spec(forms.bytes_x);
  spec.batch = 7;
  const auto training = make_training(spec);
  Inputs inputs(*training, *spec.data.train, {.trains = true});
  inputs.start_epoch(1);
  int64_t batches = 0;
  while (const ElementView* batch = inputs.next()) {
    ++batches;
    for (size_t i = 0; i < batch->size(); ++i)
      EXPECT_EQ(reinterpret_cast<uintptr_t>(batch->data(i)) % kAlignment, 0U) << "component " << i;
    // Bytes of the first component up to the next multiple belong to no other.
    const auto* const x = static_cast<const std::byte*>(batch->data(size_t{0}));
    const auto* const y = static_cast<const std::byte*>(batch->data(size_t{1}));
    EXPECT_GE(y - x, round_up(batch->bytes(size_t{0}), kAlignment));
  }
  EXPECT_EQ(batches, 6);
  EXPECT_EQ(inputs.steps_per_epoch(), 6);
}

// The first pixel of each sample, in the order of an epoch.
std::vector<int> order_of(const TwoForms& forms, const input::Pipeline& pipeline, int64_t epoch, int64_t pixel = 0) {
  Spec spec = forms.spec(forms.bytes_x);
  spec.pipeline = pipeline;
  const auto training = make_training(spec);
  Inputs inputs(*training, *spec.data.train, {.trains = true});
  inputs.start_epoch(epoch);
  std::vector<int> order;
  while (const ElementView* batch = inputs.next())
    for (int64_t i = 0; i < input::samples_of(*batch); ++i)
      order.push_back(batch->as<uint8_t>(0)[static_cast<size_t>(i * testing::kPixels + pixel)]);
  return order;
}

TEST(Inputs, AreShuffledAsThePipelineSays) {
  const TwoForms forms;
  std::vector<int> stored;
  for (int64_t i = 0; i < kSamples; ++i) stored.push_back(pixels()[static_cast<size_t>(i * testing::kPixels)]);
  EXPECT_EQ(order_of(forms, {.shuffles = false}, 1), stored);
  const std::vector<int> first = order_of(forms, {}, 1), second = order_of(forms, {}, 2);
  EXPECT_NE(first, stored);
  EXPECT_NE(first, second);
  EXPECT_EQ(std::multiset<int>(first.begin(), first.end()), std::multiset<int>(stored.begin(), stored.end()));
  EXPECT_EQ(order_of(forms, {.shuffle_window = 1}, 1), stored);
}

TEST(Inputs, FlipSwapsLeftAndRightOfSomeTrainingImages) {
  const TwoForms forms;
  const std::vector<int> left = order_of(forms, {.shuffles = false}, 1, 0),
                         right = order_of(forms, {.shuffles = false}, 1, 3),
                         flipped = order_of(forms, {.shuffles = false, .flips = true}, 1, 0);
  int64_t swapped = 0;
  for (size_t i = 0; i < flipped.size(); ++i) {
    EXPECT_TRUE(flipped[i] == left[i] || flipped[i] == right[i]) << i;
    if (flipped[i] != left[i]) ++swapped;
  }
  EXPECT_GT(swapped, 5);
  EXPECT_LT(swapped, 35);
}

TEST(Inputs, FlipsDifferBetweenEpochsInAnyOrder) {
  const TwoForms forms;
  const input::Pipeline flips{.shuffles = false, .flips = true};
  EXPECT_NE(order_of(forms, flips, 1), order_of(forms, flips, 2));
  EXPECT_EQ(order_of(forms, flips, 2), order_of(forms, flips, 2));
}

TEST(Inputs, NormalisationIsPartOfTheStep) {
  const TwoForms forms;
  Spec normalised = forms.spec(forms.bytes_x), plain = normalised;
  normalised.pipeline.mean = {0.0F};
  normalised.pipeline.deviation = {1.0F};
  EXPECT_EQ(losses_of(normalised), losses_of(plain));
  normalised.pipeline.mean = {0.5F};
  EXPECT_NE(losses_of(normalised), losses_of(plain));
  normalised.pipeline.mean = {0.1F, 0.2F};
  EXPECT_THAT(error_of([&] { make_training(normalised); }), HasSubstr("give one for each channel, or one"));
}

TEST(Inputs, LabelsThatTheModelCannotTakeAreRefused) {
  TwoForms forms;
  forms.y = forms.dir.write("wide.npy", npy("'<i8'", "(40,)", raw(std::vector<int64_t>(40, int64_t{1} << 40))));
  EXPECT_THAT(error_of([&] { losses_of(forms.spec(forms.bytes_x)); }),
              HasSubstr(": label 1099511627776 is not in [0, 3)"));
  forms.y = forms.dir.write("real.npy", npy("'<f4'", "(40,)", raw(std::vector<float>(40, 1.5F))));
  EXPECT_THAT(error_of([&] { losses_of(forms.spec(forms.bytes_x)); }), HasSubstr("f32 cannot become i32"));
  const auto train_rows = [&](const std::string& label) {
    std::string text = "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,label\n";
    for (int i = 0; i < 20; ++i) text += fmt::format("1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,{}\n", i == 11 ? label : "1");
    Spec spec = small_spec();
    spec.data =
        input::open_data({.path = forms.dir.write("rows.csv", text)}, find_model(spec.model, spec.model_options));
    losses_of(spec);
  };
  EXPECT_THAT(error_of([&] { train_rows("3"); }),
              HasSubstr("rows.csv: row 13, column 'label': label 3 is not in [0, 3)"));
  EXPECT_THAT(error_of([&] { train_rows("1099511627776"); }), HasSubstr("label 1099511627776 is not in [0, 3)"));
  train_rows("2");
}

// 256 numbers a row, as text: reading a batch is work.
std::string csv_text(int64_t rows) {
  std::string text;
  for (int64_t column = 0; column < 256; ++column) text += fmt::format("c{},", column);
  text += "label\n";
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < 256; ++column)
      text += fmt::format("{:.6f},", std::sin(static_cast<double>(row * 256 + column)));
    text += fmt::format("{}\n", row % 3);
  }
  return text;
}

int64_t batches_made(const Inputs& inputs) {
  for (const StageReport& stage : inputs.stages())
    if (stage.name.starts_with("batch(")) return stage.elements;
  return 0;
}

// Time spent waiting for batches alone; time by the clock would also hold what other work on the machine takes.
int64_t waited_for_batches(const Inputs& inputs) {
  for (const StageReport& stage : inputs.stages())
    if (stage.name.starts_with("prefetch(")) return stage.waiting_ns;
  ADD_FAILURE() << "no stage reads ahead";
  return 0;
}

// A step is repeated until the next batch is ready: that makes it slower than the input on any machine. Batches that
// were read between steps instead of beside them would never be ready.
TEST(Inputs, AStepThatIsSlowerThanItsInputWaitsLessThanTwoPercent) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kBatches = 30;
  const TemporaryDirectory dir;
  Spec spec = small_spec();
  spec.model_options.image_size = 16;
  spec.model_options.width = 256;
  spec.batch = 32;
  spec.data =
      input::open_data({.path = dir.write("rows.csv", csv_text(500))}, find_model(spec.model, spec.model_options));
  const auto training = make_training(spec);
  training->session->open();
  Inputs inputs(*training, *training->spec.data.train, {.trains = true, .repeats = true});
  input::BatchFeeds feeds(training->fed, inputs.element());
  inputs.start_epoch(1);
  const ElementView* batch = inputs.next();
  const int64_t waited_before = waited_for_batches(inputs);
  const Clock::time_point started = Clock::now();
  for (int64_t taken = 1; taken <= kBatches; ++taken) {
    ASSERT_NE(batch, nullptr);
    // The batch is made; three steps more let its thread hand it over, even when other work wants the processor.
    for (int more = 0; more < 3;) {
      training->session->run_like(Training::kTrain, feeds.of(*batch));
      ASSERT_LT(Clock::now() - started, std::chrono::minutes(2)) << "batch " << taken << " is not made beside a step";
      if (batches_made(inputs) > taken) ++more;
    }
    batch = inputs.next();
  }
  const auto all = std::chrono::nanoseconds(Clock::now() - started).count();
  EXPECT_LT(waited_for_batches(inputs) - waited_before, all / 50);
}

}  // namespace
}  // namespace plimsoll::train
