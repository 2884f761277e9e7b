// Models of several inputs, fed by name from every kind of file that has names.
#include "input/opening/roles.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "input/pictures.h"
#include "input/records.h"
#include "support/error_of.h"
#include "train/evaluate.h"
#include "train/loop.h"
#include "train/small_data.h"

namespace plimsoll::fit {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using namespace testing;  // the writers of files

constexpr int64_t kPairs = 24;

ModelOptions tiny_pairs() {
  ModelOptions options;
  options.image_size = 2;
  options.width = 8;
  return options;
}

// Two pictures of four numbers; they belong together where the first numbers are of one sign.
struct Pairs {
  std::vector<float> left, right;
  std::vector<int64_t> same;
  Pairs() {
    for (int64_t i = 0; i < kPairs; ++i) {
      for (int64_t k = 0; k < 4; ++k) {
        left.push_back(std::sin(static_cast<float>(i * 5 + k)));
        right.push_back(std::cos(static_cast<float>(i * 3 + k)));
      }
      same.push_back((left[left.size() - 4] > 0) == (right[right.size() - 4] > 0) ? 1 : 0);
    }
  }
  std::string npz() const {
    const std::string shape = fmt::format("({}, 1, 2, 2)", kPairs);
    return zip({{"label.npy", npy("'<i8'", fmt::format("({},)", kPairs), raw(same))},
                {"right.npy", npy("'<f4'", shape, raw(right))},
                {"left.npy", npy("'<f4'", shape, raw(left))},
                {"other.npy", npy("'<f4'", shape, raw(left))}},
               false);
  }
  std::string csv(const char* between = "_") const {
    std::string text = fmt::format("name,right{0}0,right{0}1,right{0}2,right{0}3,label,", between);
    text += fmt::format("left{0}0,left{0}1,left{0}2,left{0}3\n", between);
    for (size_t i = 0; i < static_cast<size_t>(kPairs); ++i) {
      text += fmt::format("row{}", i);
      for (size_t k = 0; k < 4; ++k) text += fmt::format(",{}", right[4 * i + k]);
      text += fmt::format(",{}", same[i]);
      for (size_t k = 0; k < 4; ++k) text += fmt::format(",{}", left[4 * i + k]);
      text += "\n";
    }
    return text;
  }
  std::string records() const {
    std::string all;
    for (size_t i = 0; i < static_cast<size_t>(kPairs); ++i) {
      const auto four = [&](const std::vector<float>& of) {
        return float_list({of[4 * i], of[4 * i + 1], of[4 * i + 2], of[4 * i + 3]});
      };
      all += tf_record(example({{"label", int64_list({same[i]})}, {"left", four(left)}, {"right", four(right)}}));
    }
    return all;
  }
};

input::Data open(const std::string& path, const std::string& label = {}) {
  return input::open_data({.path = path, .label = label}, find_model("siamese", tiny_pairs()));
}

std::vector<double> losses_of(const input::Data& data, const input::Pipeline& pipeline = {}) {
  train::Spec spec;
  spec.model = "siamese";
  spec.model_options = tiny_pairs();
  spec.batch = 8;
  spec.line = GiB;
  spec.data = data;
  spec.pipeline = pipeline;
  const auto training = train::make_training(spec);
  train::TrainingLoop loop(*training, {.epochs = 3});
  loop.open();
  std::vector<double> losses;
  for (const EpochLog& epoch : loop.run().epochs) losses.push_back(epoch.log("loss").value());
  return losses;
}

TEST(SeveralInputs, AreFedByNameFromArchivesTablesAndRecords) {
  const TemporaryDirectory dir;
  const Pairs pairs;
  const input::Data archive = open(dir.write("pairs.npz", pairs.npz()));
  EXPECT_EQ(to_string(archive.train->elements.element()), "left f32[1,2,2], right f32[1,2,2], labels i64[]");
  const std::vector<double> losses = losses_of(archive);
  EXPECT_LT(losses.back(), losses.front());
  EXPECT_EQ(losses_of(open(dir.write("pairs.csv", pairs.csv()))), losses);
  EXPECT_EQ(losses_of(open(dir.write("dots.csv", pairs.csv(".")))), losses);
  EXPECT_EQ(losses_of(open(dir.write("pairs.tfrecord", pairs.records()))), losses);
}

// Exchanging the two is not the same training, so each input got its own numbers.
TEST(SeveralInputs, AreNotExchanged) {
  const TemporaryDirectory dir;
  const Pairs pairs;
  const input::Data data = open(dir.write("pairs.npz", pairs.npz()));
  MemoryLine line;
  Iteration samples = data.train->elements.on(line);
  const ElementView* const first = samples.next();
  EXPECT_THAT(first->as<float>("left"), ElementsAre(pairs.left[0], pairs.left[1], pairs.left[2], pairs.left[3]));
  EXPECT_THAT(first->as<float>("right"), ElementsAre(pairs.right[0], pairs.right[1], pairs.right[2], pairs.right[3]));
  const input::Data table = open(dir.write("pairs.csv", pairs.csv()));
  Iteration rows = table.train->elements.on(line);
  EXPECT_THAT(rows.next()->as<float>("left"), ElementsAre(pairs.left[0], pairs.left[1], pairs.left[2], pairs.left[3]));
}

TEST(SeveralInputs, ImagesStayBytesAndAreFlippedTogether) {
  const TemporaryDirectory dir;
  std::string records;
  for (int64_t i = 0; i < 16; ++i)
    records += tf_record(example({{"label", int64_list({i % 2})},
                                  {"left", bytes_list({jpeg(picture(9, 9 + i))})},
                                  {"right", bytes_list({png(picture(7 + i, 8))})}}));
  const input::Data data = open(dir.write("images.tfrecord", records));
  EXPECT_EQ(to_string(data.train->elements.element()), "left u8[1,2,2], right u8[1,2,2], label i64[]");
  const ModelSpec model = find_model("siamese", tiny_pairs());
  EXPECT_THAT(train::fed_types(data, model), ElementsAre(DType::U8, DType::U8));
  EXPECT_NE(losses_of(data, {.flips = true}), losses_of(data));
  EXPECT_NE(losses_of(data, {.mean = {0.5F}, .deviation = {0.5F}}), losses_of(data));
}

// Batches of a few bytes lie close together, not where a step could read them in place.
TEST(SeveralInputs, OfAFewBytesAreFedToo) {
  const TemporaryDirectory dir;
  std::string text = "left,right,label\n";
  for (int i = 0; i < 12; ++i) text += fmt::format("{},{},{}\n", i % 5, i % 3, i % 2);
  train::Spec spec;
  spec.model = "siamese";
  spec.model_options = tiny_pairs();
  spec.model_options.image_size = 1;
  spec.batch = 3;
  spec.line = GiB;
  spec.data = input::open_data({.path = dir.write("few.csv", text)}, find_model(spec.model, spec.model_options));
  const auto training = train::make_training(spec);
  EXPECT_FALSE(training->reads_in_place);
  train::TrainingLoop loop(*training, {.epochs = 1});
  loop.open();
  EXPECT_EQ(loop.run().epochs.at(0).steps, 4);
}

TEST(SeveralInputs, WhatIsMissingIsNamed) {
  const TemporaryDirectory dir;
  const Pairs pairs;
  const std::string x = npy("'<f4'", "(2, 1, 2, 2)", std::string(32, '\0')),
                    y = npy("'<i8'", "(2,)", std::string(16, '\0'));
  EXPECT_THAT(error_of([&] {
                open(dir.write("none.npz", zip({{"left.npy", x}, {"rihgt.npy", x}, {"label.npy", y}}, false)));
              }),
              HasSubstr("has no 'right', which siamese takes; it has left, rihgt, label"));
  EXPECT_THAT(error_of([&] { open(dir.write("none.csv", "left_0,left_1,label\n1,2,0\n")); }),
              HasSubstr("no column is named 'right' or 'right_0', 'right_1' ..., which siamese takes"));
  EXPECT_THAT(error_of([&] { open(dir.write("few.csv", "left_0,right_0,label\n1,2,0\n")); }),
              HasSubstr("has samples of 1 numbers [1] but the model takes 4"));
  EXPECT_THAT(error_of([&] { open(SmallData(8, 8).folder()); }), HasSubstr("takes left, right, labels"));
  std::filesystem::create_directory(dir.path() + "/images");
  std::filesystem::create_directory(dir.path() + "/images/cat");
  dir.write("images/cat/1.jpg", jpeg(picture(9, 9)));
  EXPECT_THAT(error_of([&] { open(dir.path() + "/images"); }),
              HasSubstr("holds images, but siamese takes left, right"));
}

TEST(Roles, OneInputIsFoundByAUsualNameOrBecauseItIsAlone) {
  const ModelSpec model = find_model("mlp");
  EXPECT_THAT(input::choose_roles({"y", "noise", "x"}, model, "", "a"), ElementsAre("x", "y"));
  EXPECT_THAT(input::choose_roles({"pixels", "class"}, model, "", "a"), ElementsAre("pixels", "class"));
  EXPECT_THAT(input::choose_roles({"x", "y", "age"}, model, "age", "a"), ElementsAre("x", "age"));
  EXPECT_THAT(error_of([&] {
                input::choose_roles({"a", "b", "y"}, model, "", "f");
              }),
              HasSubstr("none of a, b, y is named like the one input of a model"));
  EXPECT_THAT(error_of([&] {
                input::choose_roles({"x", "y"}, model, "z", "f");
              }),
              HasSubstr("has no 'z' to take labels from"));
}

}  // namespace
}  // namespace plimsoll::fit
