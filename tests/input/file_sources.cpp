// Sources in files, read through shuffle and batch: every element once, any threads, exact resume, clear errors.
#include <cmath>
#include <filesystem>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/dataset.h>
#include <plimsoll/error.h>
#include "input/files.h"
#include "input/pictures.h"
#include "input/records.h"
#include "input/stages/labelled_files.h"

namespace plimsoll::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kElements = 23;

int64_t changed_element = -1;  // has another first number than the others

int64_t number_of(int64_t i) { return i == changed_element ? 99 : i; }

// Element i has the label i and an x whose first number is i.
struct FileSource {
  const char* name;
  std::string (*write)(const TemporaryDirectory& dir);
  Dataset (*open)(const std::string& path, int threads);
};

std::string write_csv(const TemporaryDirectory& dir) {
  std::string text = "a,b,y\n";
  for (int64_t i = 0; i < kElements; ++i) text += std::to_string(number_of(i)) + ",0.5," + std::to_string(i) + "\n";
  return dir.write("a.csv", text);
}

std::string write_records(const TemporaryDirectory& dir) {
  std::string text;
  for (int64_t i = 0; i < kElements; ++i)
    text += tf_record(example({{"x", float_list({float(number_of(i)), 1})}, {"y", int64_list({i})}}));
  return dir.write("a.tfrecord", text);
}

std::string write_list(const TemporaryDirectory& dir) {
  std::string list;
  for (int64_t i = 0; i < kElements; ++i) {
    const std::string name = std::to_string(i) + (i % 2 == 0 ? ".png" : ".jpg");
    const Picture plain{16, 16, 1, std::vector<uint8_t>(256, uint8_t(number_of(i)))};
    dir.write(name, i % 2 == 0 ? png(plain) : jpeg(plain));
    list += name + "," + std::to_string(i) + "\n";
  }
  return dir.write("list.csv", list);
}

// One image in each class, so that the class is the number of the element.
std::string write_folder(const TemporaryDirectory& dir) {
  for (int64_t i = 0; i < kElements; ++i) {
    const std::string name = "folder/class" + std::to_string(100 + i);
    std::filesystem::create_directories(dir.path() + "/" + name);
    dir.write(name + "/a.png", png({16, 16, 1, std::vector<uint8_t>(256, uint8_t(number_of(i)))}));
  }
  return dir.path() + "/folder";
}

std::string write_npz(const TemporaryDirectory& dir) {
  std::vector<float> x;
  std::vector<int64_t> y;
  for (int64_t i = 0; i < kElements; ++i) {
    x.insert(x.end(), {float(number_of(i)), 1});
    y.push_back(i);
  }
  return dir.write("a.npz",
                   zip({{"x.npy", npy("'<f4'", "(23, 2)", raw(x))}, {"y.npy", npy("'<i8'", "(23,)", raw(y))}}, true));
}

const ImageOptions kSmall{.height = 8, .width = 8, .dtype = DType::F32};

const FileSource kSources[] = {
    {"Csv", write_csv,
     [](const std::string& path, int threads) { return Dataset::csv(path, {.label = "y"}, threads); }},
    {"TfRecord", write_records,
     [](const std::string& path, int threads) { return Dataset::tfrecord({path}, {}, threads); }},
    {"List", write_list,
     [](const std::string& path, int threads) { return Dataset::image_list(path, kSmall, threads); }},
    {"Images", write_folder,
     [](const std::string& path, int threads) { return Dataset::images(path, kSmall, threads); }},
    {"Npz", write_npz, [](const std::string& path, int) { return Dataset::npz(path); }},
};

class FileSources : public ::testing::TestWithParam<FileSource> {
 protected:
  FileSources() : path_(GetParam().write(dir_)) {}
  Dataset open(int threads) const { return GetParam().open(path_, threads); }

  // Labels in the order in which they come; x belongs to them.
  static std::vector<int64_t> labels(Iteration& iteration) {
    std::vector<int64_t> all;
    for (const ElementView& batch : iteration) {
      const auto x = batch.as<float>("x");
      const auto y = batch.as<int64_t>("y");
      for (size_t i = 0; i < y.size(); ++i) {
        EXPECT_NEAR(x[i * (x.size() / y.size())], float(y[i]), 0.01F);
        all.push_back(y[i]);
      }
    }
    return all;
  }

  const TemporaryDirectory dir_;
  const std::string path_;
};

TEST_P(FileSources, ShuffledAndBatchedForAnyThreads) {
  std::vector<int64_t> once;
  for (const int threads : {1, 3, AUTOTUNE}) {
    const Dataset dataset = open(threads).shuffle({.seed = 5}).batch(4).prefetch(2);
    EXPECT_EQ(dataset.size(), 6);
    MemoryLine line;
    Iteration iteration = dataset.on(line);
    const std::vector<int64_t> all = labels(iteration);
    if (once.empty()) once = all;
    EXPECT_EQ(all, once);
    std::vector<int64_t> sorted = all;
    std::sort(sorted.begin(), sorted.end());
    for (int64_t i = 0; i < kElements; ++i) ASSERT_EQ(sorted[static_cast<size_t>(i)], i);
    EXPECT_NE(all, sorted);
    iteration.start_epoch(1);
    EXPECT_NE(labels(iteration), all);
  }
}

TEST_P(FileSources, GoesOnWhereItStopped) {
  for (const int threads : {1, 3}) {
    const Dataset dataset = open(threads).shuffle({.seed = 5}).batch(4);
    MemoryLine line;
    Iteration whole = dataset.on(line), resumed = open(4 - threads).shuffle({.seed = 5}).batch(4).on(line);
    const std::vector<int64_t> all = labels(whole);
    whole.start_epoch(0);
    for (size_t position = 0; position < all.size(); position += 4) {
      resumed.seek(whole.state());
      EXPECT_EQ(labels(resumed), std::vector<int64_t>(all.begin() + std::ptrdiff_t(position), all.end()));
      whole.next();
    }
  }
}

TEST_P(FileSources, AStateBelongsToTheContentsWhereverTheyLie) {
  namespace fs = std::filesystem;
  const TemporaryDirectory elsewhere;
  fs::copy(dir_.path(), elsewhere.path(), fs::copy_options::recursive);
  const std::string moved = elsewhere.path() + path_.substr(dir_.path().size());
  const auto state_of = [](const Dataset& samples) {
    MemoryLine line;
    return samples.shuffle({.seed = 5}).batch(4).on(line).state().dataset;
  };
  const uint64_t here = state_of(open(1));
  EXPECT_EQ(state_of(GetParam().open(moved, 1)), here);
  EXPECT_NE(state_of(open(1).take(20)), here);
  // One number or pixel of some file is another one.
  const TemporaryDirectory other;
  changed_element = 7;
  const std::string changed = GetParam().write(other);
  changed_element = -1;
  EXPECT_NE(state_of(GetParam().open(changed, 1)), here);
}

TEST_P(FileSources, CountsWhatItHolds) {
  const Dataset dataset = open(2).batch(4);
  MemoryLine line(dataset.bytes());
  Iteration iteration = dataset.on(line);
  labels(iteration);
  EXPECT_LE(line.peak(), dataset.bytes());
  MemoryLine less(dataset.bytes() - 1);
  EXPECT_THROW(dataset.on(less), DoesNotFit);
}

INSTANTIATE_TEST_SUITE_P(Each, FileSources, ::testing::ValuesIn(kSources),
                         [](const auto& info) { return info.param.name; });

TEST(FileSource, ABadElementIsNamedAndTheRestIsRead) {
  const TemporaryDirectory dir;
  for (const int threads : {1, 3}) {
    const std::string path = dir.write("a.csv", "a,y\n0,0\n1,1\nbad,2\n3,3\n");
    MemoryLine line;
    Iteration iteration = Dataset::csv(path, {.label = "y"}, threads).on(line);
    EXPECT_EQ(iteration.next()->as<int64_t>("y")[0], 0);
    EXPECT_EQ(iteration.next()->as<int64_t>("y")[0], 1);
    EXPECT_THAT(refusal([&] { iteration.next(); }), HasSubstr("a.csv: row 4, column 'a': 'bad' is no number"));
    EXPECT_EQ(iteration.next()->as<int64_t>("y")[0], 3);
    EXPECT_EQ(iteration.next(), nullptr);
  }
}

TEST(FileSource, AVanishedImageIsNamed) {
  const TemporaryDirectory dir;
  const std::string list = write_list(dir);
  const Dataset dataset = Dataset::image_list(list, kSmall, 2).batch(8);
  std::filesystem::remove(dir.path() + "/9.jpg");
  MemoryLine line;
  Iteration iteration = dataset.on(line);
  EXPECT_NE(iteration.next(), nullptr);
  EXPECT_THAT(refusal([&] { iteration.next(); }), HasSubstr("/9.jpg: No such file"));
}

TEST(FileSource, ALabelThatIsNoNumberIsAnErrorOfItsRow) {
  const TemporaryDirectory dir;
  std::vector<float> labels(40, 1.5F);
  labels[17] = std::nanf("");
  const std::string x = dir.write("x.npy", npy("'<f4'", "(40,)", raw(std::vector<float>(40, std::nanf("")))));
  const std::string y = dir.write("y.npy", npy("'<f4'", "(40,)", raw(labels)));
  MemoryLine line;
  Iteration iteration = input::labelled_files({{"x", x}, {"y", y}}, {"y"}, "").shuffle().skip_corrupt(1).on(line);
  int64_t read = 0;
  for (const ElementView& element : iteration) read += element.as<float>("y")[0] == 1.5F;
  EXPECT_EQ(read, 39);
  Iteration strict = input::labelled_files({{"x", x}, {"y", y}}, {"y"}, "").on(line);
  EXPECT_THAT(refusal([&] {
                for (const ElementView& element : strict) static_cast<void>(element);
              }),
              HasSubstr(y + ": row 17: the label is not a number"));
}

TEST(FileSource, ALabelOfNoClassIsAnErrorOfItsRow) {
  const TemporaryDirectory dir;
  const std::string x = dir.write("x.npy", npy("'<f4'", "(4,)", raw(std::vector<float>(4))));
  const auto read_all = [&](const std::string& y, int64_t classes) {
    MemoryLine line;
    Iteration iteration = input::labelled_files({{"x", x}, {"y", y}}, {"y", classes}, "").on(line);
    for (const ElementView& element : iteration) static_cast<void>(element);
  };
  const std::string wide = dir.write("wide.npy", npy("'<i8'", "(4,)", raw(std::vector<int64_t>{0, 2, 7, 1})));
  const std::string small = dir.write("small.npy", npy("'|i1'", "(4,)", raw(std::vector<int8_t>{0, -1, 1, 2})));
  const std::string bytes = dir.write("bytes.npy", npy("'|u1'", "(4,)", raw(std::vector<uint8_t>{0, 1, 1, 255})));
  EXPECT_THAT(refusal([&] { read_all(wide, 3); }), HasSubstr(wide + ": row 2: label 7 is not in [0, 3)"));
  EXPECT_THAT(refusal([&] { read_all(small, 3); }), HasSubstr(small + ": row 1: label -1 is not in [0, 3)"));
  EXPECT_THAT(refusal([&] { read_all(bytes, 255); }), HasSubstr(bytes + ": row 3: label 255 is not in [0, 255)"));
  read_all(wide, 8);
  read_all(bytes, 256);
  read_all(small, 0);
}

}  // namespace
}  // namespace plimsoll::testing
