// Random changes of images, resizing in memory, and names of classes.
#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/dataset.h>
#include <plimsoll/error.h>
#include "input/files.h"
#include "input/pictures.h"
#include "support/error_of.h"

namespace plimsoll::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kImages = 64;

// Image i of 3 x 4 pixels with 2 channels has the numbers 24 i, 24 i + 1, ...; its label is i.
class ImageNumbers {
 public:
  ImageNumbers() : pixels_(static_cast<size_t>(kImages * 24)), labels_(static_cast<size_t>(kImages)) {
    std::iota(pixels_.begin(), pixels_.end(), 0.0F);
    std::iota(labels_.begin(), labels_.end(), 0);
  }
  Dataset images(const Dims& shape = {3, 4, 2}) const {
    Dims all = shape;
    all.insert(0, kImages);
    return Dataset::slices({{"x", pixels_, all}, {"y", labels_}});
  }

 private:
  std::vector<float> pixels_;
  std::vector<int64_t> labels_;
};

std::vector<float> floats(const Dataset& dataset, uint64_t epoch = 0) {
  MemoryLine line;
  Iteration iteration = dataset.on(line);
  iteration.start_epoch(epoch);
  std::vector<float> all;
  for (const ElementView& element : iteration) std::ranges::copy(element.as<float>("x"), std::back_inserter(all));
  return all;
}

Dataset all_changes(const Dataset& images, int threads) {
  return images.augment(
      {.padding = 1, .crop_height = 3, .crop_width = 2, .flips = true, .brightness = 0.5F, .contrast = 0.3F, .seed = 9},
      threads);
}

TEST(Augment, DependsOnSeedEpochAndElementAlone) {
  const ImageNumbers numbers;
  const std::vector<float> one = floats(all_changes(numbers.images(), 1));
  EXPECT_EQ(one.size(), static_cast<size_t>(kImages * 3 * 2 * 2));
  for (const int threads : {2, 4, AUTOTUNE}) EXPECT_EQ(floats(all_changes(numbers.images(), threads).prefetch(2)), one);
  EXPECT_NE(floats(all_changes(numbers.images(), 1), 1), one);
  const Dataset other = numbers.images().augment({.flips = true, .seed = 10}, 1);
  EXPECT_NE(floats(other), floats(numbers.images().augment({.flips = true, .seed = 9}, 1)));
}

TEST(Augment, ResumesAtAnyElement) {
  const ImageNumbers numbers;
  for (const Dataset& dataset :
       {all_changes(numbers.images(), 2), all_changes(numbers.images().filter([](auto&) { return true; }), 2)})
    for (const int64_t position : {1, 5, 63}) {
      MemoryLine line, other;
      Iteration whole = dataset.batch(1).prefetch(2).on(line), resumed = dataset.batch(1).prefetch(2).on(other);
      whole.start_epoch(3);
      for (int64_t i = 0; i < position; ++i) whole.next();
      resumed.seek(whole.state());
      while (const ElementView* expected = whole.next()) {
        const ElementView* const element = resumed.next();
        ASSERT_NE(element, nullptr);
        EXPECT_TRUE(std::ranges::equal(element->as<float>("x"), expected->as<float>("x")));
      }
    }
}

TEST(Augment, FlipsHalfOfTheImagesAndKeepsTheirLabels) {
  const ImageNumbers numbers;
  MemoryLine line;
  Iteration iteration = numbers.images().augment({.flips = true}).on(line);
  int64_t flipped = 0;
  for (const ElementView& element : iteration) {
    const auto first = static_cast<float>(24 * element.as<int64_t>("y")[0]);
    const auto x = element.as<float>("x");
    flipped += x[0] != first;
    EXPECT_EQ(x[0], x[0] == first ? first : first + 6);  // the last pixel of the first row
    EXPECT_EQ(x[1], x[0] + 1);                           // channels stay in order
  }
  EXPECT_GT(flipped, kImages / 4);
  EXPECT_LT(flipped, kImages * 3 / 4);
}

TEST(Augment, CropsAreStretchesOfTheImageAndDiffer) {
  const ImageNumbers numbers;
  std::set<float> corners;
  MemoryLine line;
  // Two planes of 3 x 4.
  Iteration iteration = numbers.images({2, 3, 4})
                            .augment({.images = {.channels_first = true}, .crop_height = 2, .crop_width = 2, .seed = 1})
                            .on(line);
  for (const ElementView& element : iteration) {
    EXPECT_EQ(element.dims("x"), (Dims{2, 2, 2}));
    const auto x = element.as<float>("x");
    const float corner = x[0] - static_cast<float>(24 * element.as<int64_t>("y")[0]);
    corners.insert(corner);
    EXPECT_EQ(x[1], x[0] + 1);
    EXPECT_EQ(x[2], x[0] + 4);
    EXPECT_EQ(x[4], x[0] + 12);
  }
  EXPECT_THAT(std::vector<float>(corners.begin(), corners.end()), ElementsAre(0, 1, 2, 4, 5, 6));
}

TEST(Augment, LightOfBytesStaysWithinTheirRange) {
  const std::vector<uint8_t> dark(static_cast<size_t>(kImages * 4), 10);
  MemoryLine line;
  Iteration iteration = Dataset::slices({{"x", dark, {kImages, 2, 2}}}).augment({.brightness = 0.1F}).on(line);
  std::set<uint8_t> seen;
  for (const ElementView& element : iteration) {
    const uint8_t value = element.as<uint8_t>("x")[0];
    EXPECT_THAT(element.as<uint8_t>("x"), Each(value));
    EXPECT_LE(value, 10 + 26);
    seen.insert(value);
  }
  EXPECT_GT(seen.size(), 10U);
  EXPECT_EQ(*seen.begin(), 0);
}

TEST(Augment, RefusesWhatMakesNoSense) {
  const ImageNumbers numbers;
  const auto refused = [&](const AugmentOptions& options) {
    return error_of([&] { numbers.images().augment(options); });
  };
  EXPECT_THAT(refused({.images = {.name = "z"}}), HasSubstr("there is no component 'z'"));
  EXPECT_THAT(refused({.images = {.name = "y"}}), HasSubstr("'y' is i64"));
  EXPECT_THAT(refused({.crop_height = 4}), HasSubstr("a height of 4 can't be cut out of 3"));
  EXPECT_THAT(refused({.padding = -1}), HasSubstr("a padding of -1"));
  EXPECT_THAT(refused({.contrast = 2}), HasSubstr("contrast of 2"));
  EXPECT_THAT(error_of([&] { numbers.images().batch(3).augment({}); }), HasSubstr("before batch"));
}

TEST(ResizeImages, KeepsPlanesOfNumbersAndAveragesAreas) {
  const std::vector<float> x{1, 3, 5, 7, 10, 30, 50, 70};
  const auto resized = [&](const Dims& shape, const ImageResize& options) {
    return floats(Dataset::slices({{"x", x, shape}}).resize(options));
  };
  EXPECT_THAT(resized({1, 2, 2, 2},
                      {.images = {.channels_first = true}, .height = 1, .width = 1, .method = ResizeMethod::Area}),
              ElementsAre(4, 40));
  EXPECT_THAT(resized({1, 2, 4}, {.height = 2, .width = 2, .method = ResizeMethod::Area}), ElementsAre(2, 6, 20, 60));
  EXPECT_THAT(resized({2, 1, 4}, {.height = 1, .width = 2}), ElementsAre(2, 6, 20, 60));
  EXPECT_EQ(resized({1, 2, 4}, {.height = 2, .width = 4}), x);
  EXPECT_THAT(error_of([&] { resized({1, 2, 4}, {.height = 0}); }), HasSubstr("needs a size of at least 1"));
}

TEST(ClassNames, AreThoseOfTheSourceBehindAnyStage) {
  const TemporaryDirectory dir;
  for (const char* name : {"cat", "dog"}) {
    std::filesystem::create_directories(dir.path() + "/" + name);
    dir.write(std::string(name) + "/a.png", png({16, 16, 1, std::vector<uint8_t>(256, 1)}));
  }
  const Dataset images = Dataset::images(dir.path(), {.height = 8, .width = 8}).shuffle().batch(2).prefetch(1);
  EXPECT_THAT(images.class_names(), ElementsAre("cat", "dog"));
  EXPECT_TRUE(Dataset::range(3).class_names().empty());
}

}  // namespace
}  // namespace plimsoll::testing
