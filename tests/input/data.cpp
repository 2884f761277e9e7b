#include "input/opening/data.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "input/pictures.h"
#include "input/records.h"
#include "support/error_of.h"
#include "train/small_data.h"

namespace plimsoll::input {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using ::testing::HasSubstr;
using namespace testing;  // the writers of files

ModelSpec small_model() { return find_model("mlp", small_spec().model_options); }
Data open(const std::string& path, const std::string& label = {}) {
  return open_data({.path = path, .label = label}, small_model());
}
std::string type_of(const std::optional<Samples>& half) {
  return half ? fmt::format("{} of {}", half->elements.size(), to_string(half->elements.element())) : "none";
}

std::string csv_of(int rows, const std::string& label = "label") {
  std::string text = label;
  for (int i = 0; i < 16; ++i) text += fmt::format(",p{}", i);
  for (int row = 0; row < rows; ++row) text += fmt::format("\n{},0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,2", row % 3);
  return text + "\n";
}

TEST(OpenData, ArraysUnderUsualNamesHaveTwoHalves) {
  const Data data = open(SmallData(64, 21).folder());
  EXPECT_EQ(data.kind, "a folder of array files");
  EXPECT_EQ(type_of(data.train), "64 of x f32[1,4,4], y i32[]");
  EXPECT_EQ(type_of(data.test), "21 of x f32[1,4,4], y i32[]");
}

TEST(OpenData, ArraysOfAnArchive) {
  const TemporaryDirectory dir;
  const std::string x = npy("'|u1'", "(2, 4, 4)", std::string(32, 'a')), y = npy("'|u1'", "(2,)", std::string(2, '\1'));
  const Data one = open(dir.write("one.npz", zip({{"x.npy", x}, {"label.npy", y}}, true)));
  EXPECT_EQ(one.kind, "an archive of arrays (npz)");
  EXPECT_EQ(type_of(one.train), "2 of x u8[4,4], y u8[]");
  EXPECT_FALSE(one.test);
  const Data both = open(dir.write(
      "both.npz", zip({{"x_train.npy", x}, {"y_train.npy", y}, {"x_test.npy", x}, {"y_test.npy", y}}, false)));
  EXPECT_TRUE(both.train && both.test);
  EXPECT_THAT(error_of([&] {
                open(dir.write("none.npz", zip({{"x.npy", x}, {"other.npy", y}}, false)));
              }),
              HasSubstr("none of x, other is named like a label"));
}

TEST(OpenData, ACsvFileTakesTheColumnThatIsNamedLikeALabel) {
  const TemporaryDirectory dir;
  const std::string path = dir.write("a.csv", csv_of(5));
  EXPECT_EQ(type_of(open(path).train), "5 of x f32[16], y i64[]");
  const auto first_label = [](const Data& data) {
    MemoryLine line;
    Iteration rows = data.train->elements.skip(1).on(line);
    return rows.next()->as<int64_t>(1)[0];
  };
  EXPECT_EQ(first_label(open(path)), 1);
  EXPECT_EQ(first_label(open(path, "p0")), 0);
  // Where no name says it, the last column is.
  EXPECT_EQ(first_label(open(dir.write("b.csv", csv_of(5, "first")))), 2);
  EXPECT_THAT(error_of([&] { open(path, "p77"); }), HasSubstr("p77"));
}

TEST(OpenData, HalvesAreFilesOrFoldersNamedTrainAndTest) {
  const TemporaryDirectory dir;
  dir.write("train.csv", csv_of(5));
  dir.write("val.csv", csv_of(2));
  const Data data = open(dir.path());
  EXPECT_EQ(type_of(data.train), "5 of x f32[16], y i64[]");
  EXPECT_EQ(type_of(data.test), "2 of x f32[16], y i64[]");
  // To be scored on, the test half counts; a path without halves is one.
  EXPECT_EQ(open_test_data({.path = dir.path()}, small_model()).test->elements.size(), 2);
  EXPECT_EQ(open_test_data({.path = dir.path() + "/train.csv"}, small_model()).test->elements.size(), 5);
  // Data to validate with replaces the half.
  const Data other = open_data({.path = dir.path(), .validation = dir.write("b.csv", csv_of(3))}, small_model());
  EXPECT_EQ(other.test->elements.size(), 3);
}

TEST(OpenData, RecordsHaveAnInputAndALabel) {
  const TemporaryDirectory dir;
  const std::string record =
      tf_record(example({{"image", bytes_list({jpeg(picture(9, 9))})}, {"label", int64_list({2})}}));
  EXPECT_EQ(type_of(open(dir.write("a.tfrecord", record + record)).train), "2 of image u8[1,4,4], label i64[]");
  const std::string numbers =
      tf_record(example({{"features", float_list(std::vector<float>(16))}, {"class", int64_list({1})}}));
  EXPECT_EQ(type_of(open(dir.write("b.tfrecord", numbers)).train), "1 of features f32[16], class i64[]");
}

TEST(OpenData, ImagesComeInTheSizeOfTheModel) {
  const TemporaryDirectory dir;
  for (const char* name : {"cat", "dog"}) {
    fs::create_directory(dir.path() + "/" + name);
    dir.write(std::string(name) + "/1.jpg", jpeg(picture(20, 30)));
  }
  const Data data = open(dir.path());
  EXPECT_EQ(data.kind, "a folder of images");
  EXPECT_EQ(type_of(data.train), "2 of x u8[1,4,4], y i64[]");
  EXPECT_THAT(data.classes, ::testing::ElementsAre("cat", "dog"));
  const Data listed = open(dir.write("list.txt", "cat/1.jpg 0\ndog/1.jpg 1\n"));
  EXPECT_EQ(listed.kind, "a list of images");
  EXPECT_EQ(type_of(listed.train), "2 of x u8[1,4,4], y i64[]");
  ModelOptions two = small_spec().model_options;
  two.classes = 1;
  EXPECT_THAT(error_of([&] { open_data({.path = dir.path()}, find_model("mlp", two)); }),
              HasSubstr("has 2 classes but the model has 1"));
  two = small_spec().model_options;
  two.channels = 2;
  EXPECT_THAT(error_of([&] { open_data({.path = dir.path()}, find_model("mlp", two)); }),
              HasSubstr("images have 3 channels, or 1 in gray"));
}

TEST(OpenData, WhatTheModelDoesNotTakeIsRefused) {
  const SmallData data(64, 16);
  ModelOptions larger = small_spec().model_options;
  larger.image_size = 5;
  EXPECT_THAT(error_of([&] { open_data({.path = data.folder()}, find_model("mlp", larger)); }),
              HasSubstr("has samples of 16 numbers [1,4,4] but the model takes 25"));
  EXPECT_THAT(error_of([&] { open(SmallData(0, 0).folder()); }), HasSubstr("the array is empty"));
  EXPECT_THAT(error_of([&] { open("/no/such"); }), HasSubstr("/no/such"));
  EXPECT_THAT(error_of([&] { open(data.folder() + "/x_train.npy"); }), HasSubstr("an array without labels"));
  EXPECT_THAT(error_of([&] { open_data({.files = {.train_x = "a.npy"}}, small_model()); }),
              HasSubstr("'a.npy' is there without its labels"));
  EXPECT_THAT(error_of([&] { open_data({.path = data.folder(), .maps = {.central_crop = 0.5}}, small_model()); }),
              HasSubstr("only JPEG and PNG images are resized and cropped"));
}

}  // namespace
}  // namespace plimsoll::input
