#include "input/image/image_files.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "input/files.h"
#include "input/pictures.h"

namespace plimsoll::input {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ImageFolder : public ::testing::Test {
 protected:
  // A picture of one gray value, so that a reader can tell which one it got.
  void add(const std::string& name, uint8_t value) const {
    std::filesystem::create_directories(std::filesystem::path(dir_.path() + "/" + name).parent_path());
    const testing::Picture plain{4, 4, 1, std::vector<uint8_t>(16, value)};
    dir_.write(name, name.ends_with("png") ? testing::png(plain) : testing::jpeg(plain));
  }
  struct Labelled {
    std::vector<int> values;
    std::vector<int64_t> labels;
  };
  static Labelled read_all(const Table& table) {
    Labelled all;
    const auto reader = table.open_reader();
    for (int64_t i = 0; i < table.elements(); ++i) {
      uint8_t pixels[2 * 2 * 3];
      int64_t label = -1;
      std::byte* const into[] = {reinterpret_cast<std::byte*>(pixels), reinterpret_cast<std::byte*>(&label)};
      reader->read(i, std::span(into).first(table.fields().size()));
      all.values.push_back(pixels[0]);
      all.labels.push_back(label);
    }
    return all;
  }
  testing::TemporaryDirectory dir_;
  ImageOptions small_{.height = 2, .width = 2};
};

TEST_F(ImageFolder, ClassesAndFilesAreSorted) {
  add("dog/b.png", 4);
  add("dog/a.JPG", 3);
  add("cat/deeper/x.jpeg", 2);
  add("cat/a.png", 1);
  add(".hidden/no.png", 9);
  add("cat/.no.png", 9);
  dir_.write("cat/readme.txt", "no image");
  for (const char* end : {"", "/"}) {
    const auto table = open_image_folder(dir_.path() + end, small_);
    EXPECT_EQ(table->elements(), 4);
    EXPECT_THAT(table->classes(), ElementsAre("cat", "dog"));
    EXPECT_THAT(table->fields(), ElementsAre(TableField{"x", DType::U8, {2, 2, 3}}, TableField{"y", DType::I64, {}}));
    const Labelled all = read_all(*table);
    EXPECT_THAT(all.values, ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(all.labels, ElementsAre(0, 0, 1, 1));
  }
}

TEST_F(ImageFolder, WithoutClasses) {
  add("2.png", 2);
  add("1.png", 1);
  const auto table = open_image_folder(dir_.path(), small_);
  EXPECT_EQ(table->fields().size(), 1);
  EXPECT_THAT(read_all(*table).values, ElementsAre(1, 2));
}

TEST_F(ImageFolder, Lists) {
  add("in/a.png", 1);
  add("in/b.png", 2);
  for (const char* text :
       {"in/a.png\t7\nin/b.png\t300\n", "in/a.png,7\r\nin/b.png,300", "in/a.png 7\nin/b.png 300\n\n"}) {
    const Labelled all = read_all(*open_image_list(dir_.write("list", text), small_));
    EXPECT_THAT(all.values, ElementsAre(1, 2));
    EXPECT_THAT(all.labels, ElementsAre(7, 300));
  }
  const auto named =
      open_image_list(dir_.write("list", dir_.path() + "/in/b.png,no\nin/a.png,\"a cat\"\nin/b.png,7\n"), small_);
  EXPECT_THAT(named->classes(), ElementsAre("7", "a cat", "no"));
  EXPECT_THAT(read_all(*named).values, ElementsAre(2, 1, 2));
  EXPECT_THAT(read_all(*named).labels, ElementsAre(2, 1, 0));
}

TEST_F(ImageFolder, RefusesWhatIsEmptyOrGone) {
  EXPECT_THAT(testing::refusal([&] { open_image_folder(dir_.path()); }), HasSubstr("the folder holds no JPEG or PNG"));
  EXPECT_THAT(testing::refusal([&] { open_image_folder(dir_.path() + "/none"); }), HasSubstr("/none: No such file"));
  add("cat/a.png", 1);
  std::filesystem::create_directory(dir_.path() + "/dog");
  EXPECT_THAT(testing::refusal([&] { open_image_folder(dir_.path()); }), HasSubstr("/dog: this class holds no JPEG"));
  add("dog/b.png", 1);
  const auto table = open_image_folder(dir_.path(), small_);
  std::filesystem::remove(dir_.path() + "/dog/b.png");
  EXPECT_THAT(testing::refusal([&] { read_all(*table); }), HasSubstr("/dog/b.png: No such file"));
  dir_.write("dog/b.png", "text");
  EXPECT_THAT(testing::refusal([&] { read_all(*table); }), HasSubstr("/dog/b.png: at byte 0: this is neither"));
  const auto listed = [&](const std::string& text) {
    return testing::refusal([&] { open_image_list(dir_.write("list", text)); });
  };
  EXPECT_THAT(listed("a.png"), HasSubstr("row 1: no tab, comma or blank"));
  EXPECT_THAT(listed("a.png,1\nb.png\n"), HasSubstr("row 2 (at byte 8): a path and a label are wanted"));
  EXPECT_THAT(listed("a.png,1\n,2\n"), HasSubstr("row 2 (at byte 8): the path or the label is empty"));
}

TEST_F(ImageFolder, HoldsAFewBytesForEachFile) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "some/folder/picture" + std::to_string(100'000 + i) + ".jpg,1\n";
  const auto table = open_image_list(dir_.write("list", text), small_);
  EXPECT_EQ(table->elements(), 100'000);
  EXPECT_LE(table->held_bytes(), 100'000 * 40);  // 30 of them are the name
}

TEST_F(ImageFolder, KnownClassesHaveTheirNumbers) {
  add("cat/a.png", 1);
  add("dog/b.png", 1);
  ImageOptions known = small_;
  known.classes = {"eel", "dog", "ape", "cat"};
  EXPECT_THAT(read_all(*open_image_folder(dir_.path(), known)).labels, ElementsAre(3, 1));
  const std::string list = dir_.write("list", "cat/a.png,cat\ndog/b.png,dog\ncat/a.png,eel\n");
  EXPECT_THAT(read_all(*open_image_list(list, known)).labels, ElementsAre(3, 1, 0));
  known.classes = {"eel", "cat"};
  EXPECT_THAT(testing::refusal([&] { open_image_folder(dir_.path(), known); }),
              HasSubstr("'dog' is none of the known classes eel, cat; the classes here are cat, dog"));
  EXPECT_THAT(testing::refusal([&] { open_image_list(list, known); }), HasSubstr("'dog' is none of the known"));
  const std::string numbers = dir_.write("numbers", "cat/a.png,1\n");
  EXPECT_THAT(testing::refusal([&] { open_image_list(numbers, known); }), HasSubstr("'1' is none of the known"));
}

}  // namespace
}  // namespace plimsoll::input
