// Sizes of a built-in model that nobody gave are those of the data.
#include "input/opening/follow_data.h"

#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "input/pictures.h"
#include "input/records.h"
#include "support/error_of.h"
#include "train/data_names.h"
#include "train/small_data.h"

namespace plimsoll::input {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using namespace testing;  // the writers of files

class FollowData : public ::testing::Test {
 protected:
  ModelOptions follow(const std::string& path, const std::string& model = "mlp", const ModelOptions& given = {}) const {
    return follow_data(model, given, {.path = path}).options;
  }
  std::string arrays(const std::string& name, const std::string& shape, int64_t numbers) const {
    return dir_.write(name + ".npz",
                      zip({{"x.npy", npy("'<f4'", "(3, " + shape + ")", raw(std::vector<float>(size_t(3 * numbers))))},
                           {"y.npy", npy("'<i8'", "(3,)", raw<int64_t>({4, 0, 2}))}},
                          false));
  }
  const TemporaryDirectory dir_;
};

TEST_F(FollowData, ATableIsAsWideAsItsColumns) {
  const std::string path = dir_.write("a.csv", "a,b,c,y\n1,2,3,0\n1,2,3,2\n1,2,3,1\n");
  EXPECT_EQ(follow(path), (ModelOptions{.image_size = 1, .channels = 3, .classes = 3}));
  EXPECT_EQ(follow_data("mlp", {}, {.path = path}).text, "3 classes, 3 channels, image size 1");
  const std::string words = dir_.write("b.csv", "a,b,c,y\n1,2,3,ape\n1,2,3,bat\n");
  EXPECT_EQ(follow(words), (ModelOptions{.image_size = 1, .channels = 3, .classes = 2}));
  EXPECT_EQ(follow(words, "mlp", {.image_size = 1, .classes = 5}),
            (ModelOptions{.image_size = 1, .channels = 3, .classes = 5}));
  // What does not fit stays, and is refused when the data is opened.
  EXPECT_EQ(follow(words, "lenet"), (ModelOptions{.classes = 2}));
  EXPECT_EQ(follow(words, "mlp", {.image_size = 4}), (ModelOptions{.image_size = 4, .classes = 2}));
  // 784 columns are the pixels that the model takes.
  std::string pixels;
  for (int i = 0; i < 784; ++i) pixels += fmt::format("p{},", i);
  pixels += "y\n";
  for (int i = 0; i < 784; ++i) pixels += "0,";
  EXPECT_EQ(follow(dir_.write("c.csv", pixels + "9\n")), ModelOptions{});
}

TEST_F(FollowData, ArraysHaveTheirChannelsAndSize) {
  EXPECT_EQ(follow(arrays("chw", "3, 32, 32", 3072), "resnet18"),
            (ModelOptions{.image_size = 32, .channels = 3, .classes = 5}));
  EXPECT_EQ(follow(arrays("hw", "20, 20", 400), "mlp"), (ModelOptions{.image_size = 20, .channels = 1, .classes = 5}));
  EXPECT_EQ(follow(arrays("flat", "13", 13)), (ModelOptions{.image_size = 1, .channels = 13, .classes = 5}));
  EXPECT_EQ(follow(arrays("wide", "4, 6", 24)), (ModelOptions{.image_size = 1, .channels = 24, .classes = 5}));
  const SmallData small(8, 4);
  EXPECT_EQ(follow(small.folder()).image_size, 4);
}

TEST_F(FollowData, FoldersAndListsOfImagesHaveClasses) {
  for (const char* name : {"ape", "bat", "cat"}) {
    std::filesystem::create_directories(dir_.path() + "/train/" + name);
    dir_.write(fmt::format("train/{}/a.png", name), png(picture(4, 4)));
  }
  EXPECT_EQ(follow(dir_.path(), "resnet18"), ModelOptions{.classes = 3});
  const std::string list = dir_.write("list.txt", "train/ape/a.png 4\ntrain/bat/a.png 1\n");
  EXPECT_EQ(follow(list, "resnet18"), ModelOptions{.classes = 5});
}

TEST_F(FollowData, RecordsHaveTheirNumbers) {
  const std::string record =
      tf_record(example({{"x", float_list(std::vector<float>(13, 0.5F))}, {"y", int64_list({1})}}));
  EXPECT_EQ(follow(dir_.write("a.tfrecord", record)), (ModelOptions{.image_size = 1, .channels = 13}));
}

TEST_F(FollowData, OtherModelsStayAsTheyAre) {
  const std::string path = dir_.write("a.csv", "a,b,c,y\n1,2,3,0\n1,2,3,2\n1,2,3,1\n");
  EXPECT_EQ(follow(path, "dense-chain"), ModelOptions{});
  EXPECT_EQ(follow(path, "gpt2-small"), ModelOptions{});
  EXPECT_EQ(follow("", "mlp"), ModelOptions{});
}

TEST_F(FollowData, ChannelsThatStandLastAreRefused) {
  const ModelSpec model = find_model("resnet18", {.image_size = 32, .channels = 3, .classes = 5});
  EXPECT_THAT(error_of([&] { open_data({.path = arrays("hwc", "32, 32, 3", 3072)}, model); }),
              HasSubstr("with the channels last, but the model takes [3,32,32]; transpose them"));
  EXPECT_EQ(open_data({.path = arrays("chw", "3, 32, 32", 3072)}, model).train->elements.size(), 3);
}

TEST(DataNames, HaveTheSizesOfTheModel) {
  ModelSpec model = find_model("mlp", {.image_size = 1, .channels = 3, .classes = 2});
  model.preprocessing.class_names = {"a", "b"};
  const std::string text = train::data_names_text(model);
  EXPECT_THAT(text, HasSubstr(R"("classes":["a","b"])"));
  EXPECT_THAT(text, HasSubstr(R"("model":{"channels":3,"classes":2,"image_size":1,"name":"mlp"})"));
  EXPECT_EQ(train::data_names_text(find_model("dense-chain")), "");
}

}  // namespace
}  // namespace plimsoll::input
