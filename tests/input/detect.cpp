#include "input/opening/detect.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "input/pictures.h"
#include "input/records.h"

namespace plimsoll::input {
namespace {

using ::testing::HasSubstr;
using namespace plimsoll::testing;

class Detect : public ::testing::Test {
 protected:
  std::string described(const std::string& path) const {
    const std::string text = describe(detect(path, {dir_.path()}));
    return text.substr(dir_.path().size() + 1);
  }
  std::string described(const std::string& name, const std::string& content) const {
    return described(dir_.write(name, content));
  }
  const TemporaryDirectory dir_;
};

TEST_F(Detect, Arrays) {
  const std::string array = npy("'<f4'", "(3, 2)", std::string(24, 'a'));
  EXPECT_EQ(described("a.npy", array), "a.npy: an array file, 3 elements of x f32[2]\n");
  EXPECT_EQ(described("a.idx.gz", gzip(idx(0x08, {5}, "abcde"))), "a.idx.gz: an array file, 5 elements of x u8[]\n");
  const std::string archive = zip({{"x.npy", array}, {"y.npy", npy("'<i8'", "(3,)", std::string(24, 'b'))}}, true);
  EXPECT_EQ(described("a.npz", archive), "a.npz: an archive of arrays (npz), 3 elements of x f32[2], y i64[]\n");
  EXPECT_EQ(described(dir_.path() + "/a.npz:y"), "a.npz:y: an array file, 3 elements of x i64[]\n");
  std::filesystem::create_directory(dir_.path() + "/folder");
  dir_.write("folder/b", array);
  dir_.write("folder/a", idx(0x08, {5}, "abcde"));
  EXPECT_EQ(described(dir_.path() + "/folder"),
            "folder: a folder of array files\n  a: 5 elements of x u8[]\n  b: 3 elements of x f32[2]\n");
  EXPECT_THAT(refusal([&] { open_table(dir_.path() + "/folder"); }), HasSubstr("give one of them"));
}

TEST_F(Detect, Texts) {
  EXPECT_EQ(described("a.csv", "size;kind;n\n1.5;b;1\n2;a;2\n"),
            "a.csv: a CSV file, 2 elements of size f32[], kind i64[], n i64[]; 2 classes: a, b\n");
  EXPECT_EQ(described("b", "1,2\n3,4.5\n"), "b: a CSV file, 2 elements of 0 i64[], 1 f32[]\n");
  EXPECT_EQ(described("c.csv.gz", gzip("a,b\n1,2\n")), "c.csv.gz: a CSV file, 1 elements of a i64[], b i64[]\n");
  EXPECT_EQ(described("one.csv", "a\n1\n2\n3\n"), "one.csv: a CSV file, 3 elements of a i64[]\n");
  EXPECT_EQ(described("list.txt", "in/a.jpg cat\nin/b.PNG dog\n"),
            "list.txt: a list of images, 2 elements of x u8[224,224,3], y i64[]; 2 classes: cat, dog\n");
}

TEST_F(Detect, ImagesAndRecords) {
  for (const char* name : {"images/dog", "images/cat"}) {
    std::filesystem::create_directories(dir_.path() + "/" + name);
    dir_.write(std::string(name) + "/a.png", png(picture(3, 3)));
  }
  EXPECT_EQ(described(dir_.path() + "/images"),
            "images: a folder of images, 2 elements of x u8[224,224,3], y i64[]; 2 classes: cat, dog\n");
  const std::string record = tf_record(example({{"label", int64_list({1})}, {"x", float_list({1, 2, 3})}}));
  EXPECT_EQ(described("a.tfrecord", record + record),
            "a.tfrecord: TFRecord data, 2 elements of label i64[], x f32[3]\n");
  std::filesystem::create_directory(dir_.path() + "/shards");
  dir_.write("shards/1", record);
  dir_.write("shards/2", record + record);
  EXPECT_EQ(described(dir_.path() + "/shards"), "shards: TFRecord data, 3 elements of label i64[], x f32[3]\n");
}

TEST_F(Detect, RefusesWhatIsNoData) {
  std::filesystem::create_directory(dir_.path() + "/empty");
  for (const std::string& path : {dir_.path() + "/empty", dir_.write("text", "one line of words"),
                                  dir_.write("bytes", std::string("\1\2\3\0\5", 5)), dir_.write("nothing", "")})
    EXPECT_THAT(refusal([&] { detect(path); }), HasSubstr(path + ": is no data that can be read"));
  EXPECT_THAT(refusal([&] { detect(dir_.path() + "/gone"); }), HasSubstr("gone: No such file"));
}

TEST_F(Detect, HalvesAreNotClasses) {
  namespace fs = std::filesystem;
  fs::create_directories(dir_.path() + "/a/train");
  fs::create_directories(dir_.path() + "/a/val");
  dir_.write("a/readme.txt", "");
  EXPECT_EQ(find_halves(dir_.path() + "/a").train, dir_.path() + "/a/train");
  EXPECT_EQ(find_halves(dir_.path() + "/a").test, dir_.path() + "/a/val");
  // Classes of vehicles, one of which is called train.
  for (const char* name : {"/b/train", "/b/car", "/b/plane"}) fs::create_directories(dir_.path() + name);
  EXPECT_EQ(find_halves(dir_.path() + "/b").train, "");
  fs::create_directories(dir_.path() + "/c/test");
  EXPECT_EQ(find_halves(dir_.path() + "/c").test, "");
  EXPECT_EQ(find_halves("/no/such").train, "");
}

}  // namespace
}  // namespace plimsoll::input
