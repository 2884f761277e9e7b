// Classes and columns have the numbers that the training half or the model gives their names.
#include "input/opening/open_half.h"

#include <cmath>
#include <filesystem>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "input/opening/data.h"
#include "input/pictures.h"
#include "input/records.h"
#include "model/normalisation.h"
#include "store/model_facts.h"
#include "support/error_of.h"
#include "train/small_data.h"

namespace plimsoll::input {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using namespace testing;  // the writers of files

ModelSpec tiny_model(int64_t features = 4) {
  return find_model("mlp", {.image_size = 1, .channels = features, .classes = 3, .width = 4});
}

std::vector<int64_t> labels_of(const Samples& half) {
  MemoryLine line;
  std::vector<int64_t> labels;
  for (const ElementView& row : half.elements.on(line)) labels.push_back(row.as<int64_t>(1)[0]);
  return labels;
}

std::vector<float> first_row(const Samples& half) {
  MemoryLine line;
  Iteration rows = half.elements.on(line);
  const std::span<const float> x = rows.next()->as<float>(0);
  return {x.begin(), x.end()};
}

Data open_halves(const std::string& train, const std::string& validation, const ModelSpec& model = tiny_model(),
                 const std::string& label = "") {
  return open_data({.path = train, .validation = validation, .label = label}, model);
}

TEST(NamesOfHalves, AClassThatTheValidationLacksKeepsItsNumber) {
  const TemporaryDirectory dir;
  const std::string train = dir.write("a.csv", "a,b,c,d,kind,y\n1,2,3,4,0,ape\n1,2,3,4,0,bat\n1,2,3,4,0,cat\n");
  const std::string test = dir.write("b.csv", "a,b,c,d,kind,y\n1,2,3,4,0,cat\n1,2,3,4,0,bat\n");
  const Data data = open_halves(train, test, tiny_model(5));
  EXPECT_THAT(labels_of(*data.test), ElementsAre(2, 1));
  EXPECT_THAT(data.classes, ElementsAre("ape", "bat", "cat"));
  const std::string other = dir.write("c.csv", "a,b,c,d,kind,y\n1,2,3,4,0,cat\n1,2,3,4,0,dog\n");
  EXPECT_THAT(error_of([&] { open_halves(train, other, tiny_model(5)); }),
              AllOf(HasSubstr("c.csv: row 3"), HasSubstr("'dog' is none of the known classes ape, bat, cat")));
}

TEST(NamesOfHalves, FoldersOfImagesToo) {
  const TemporaryDirectory dir;
  const auto add = [&](const std::string& folder) {
    std::filesystem::create_directories(dir.path() + "/" + folder);
    dir.write(folder + "/a.png", png(picture(4, 4)));
  };
  for (const char* folder : {"train/ape", "train/bat", "train/cat", "test/bat", "test/cat"}) add(folder);
  const ModelSpec model = find_model("mlp", {.image_size = 4, .channels = 3, .classes = 3, .width = 4});
  const auto open = [&] { return open_data({.path = dir.path()}, model); };
  EXPECT_THAT(labels_of(*open().test), ElementsAre(1, 2));
  EXPECT_THAT(labels_of(*open_test_data({.path = dir.path()}, model).test), ElementsAre(1, 2));
  add("test/dog");
  EXPECT_THAT(error_of(open), HasSubstr("'dog' is none of the known classes ape, bat, cat; the classes here are bat"));
}

TEST(NamesOfHalves, WordsAndNumbersAreNotMixed) {
  const TemporaryDirectory dir;
  const std::string words = dir.write("a.csv", "a,b,c,d,y\n1,2,3,4,ape\n1,2,3,4,bat\n");
  const std::string numbers = dir.write("b.csv", "a,b,c,d,y\n1,2,3,4,0\n1,2,3,4,1\n");
  EXPECT_THAT(error_of([&] { open_halves(words, numbers); }), HasSubstr("'0' is none of the known classes ape, bat"));
  EXPECT_THAT(error_of([&] { open_halves(numbers, words); }),
              AllOf(HasSubstr("a.csv: its labels are named ape, bat"), HasSubstr("b.csv are numbers")));
  // A half of numbers alone, where the other one has a word too.
  const std::string mixed = dir.write("c.csv", "a,b,c,d,y\n1,2,3,4,none\n1,2,3,4,0\n1,2,3,4,1\n");
  EXPECT_THAT(labels_of(*open_halves(mixed, numbers).test), ElementsAre(0, 1));
  EXPECT_THAT(labels_of(*open_halves(mixed, numbers).train), ElementsAre(2, 0, 1));
}

TEST(NamesOfHalves, ColumnsAreFoundByName) {
  const TemporaryDirectory dir;
  const std::string train = dir.write("a.csv", "a,b,c,d,kind\n1,2,3,4,0\n5,6,7,8,1\n");
  const Data data = open_halves(train, dir.write("b.csv", "kind,d,c,b,a\n1,40,30,20,10\n"), tiny_model(), "kind");
  EXPECT_THAT(first_row(*data.train), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(first_row(*data.test), ElementsAre(10, 20, 30, 40));
  EXPECT_THAT(labels_of(*data.test), ElementsAre(1));
  EXPECT_THAT(data.columns, ElementsAre("a", "b", "c", "d"));
  EXPECT_EQ(data.label, "kind");
  // The label of the training half is that of the other one, though no name says so.
  EXPECT_THAT(labels_of(*open_halves(train, dir.write("c.csv", "kind,d,c,b,a\n1,4,3,2,1\n")).test), ElementsAre(1));
}

TEST(NamesOfHalves, OtherColumnsAreRefusedAndBothShown) {
  const TemporaryDirectory dir;
  const std::string train = dir.write("a.csv", "a,b,c,d,y\n1,2,3,4,0\n5,6,7,8,1\n");
  const auto refused = [&](const std::string& text) {
    return error_of([&] { open_halves(train, dir.write("b.csv", text)); });
  };
  EXPECT_THAT(refused("a,b,c,e,y\n1,2,3,4,0\n"), AllOf(HasSubstr("b.csv: its columns are a, b, c, e, y, but"),
                                                       HasSubstr("a.csv has a, b, c, d, without d, with 1 more: e")));
  EXPECT_THAT(refused("a,b,c,d,e,y\n1,2,3,4,5,0\n"), HasSubstr("with 1 more: e"));
  EXPECT_THAT(refused("1,2,3,4,0\n1,2,3,4,1\n"), AllOf(HasSubstr("have no names"), HasSubstr("has a, b, c, d")));
  EXPECT_THAT(refused("a,b,c,d,e\n1,2,3,4,0\n"), HasSubstr("has no column 'y', which has the labels in"));
  const std::string nameless = dir.write("n.csv", "1,2,3,4,0\n1,2,3,4,1\n");
  EXPECT_THAT(error_of([&] { open_halves(nameless, train); }), HasSubstr("n.csv have no names"));
  EXPECT_EQ(open_halves(nameless, nameless).test->elements.size(), 2);
}

TEST(NamesOfHalves, AModelThatKnowsNamesDecides) {
  const TemporaryDirectory dir;
  ModelSpec model = tiny_model();
  model.preprocessing.class_names = {"cat", "ape", "bat"};
  model.preprocessing.columns = {"d", "c", "b", "a"};
  model.preprocessing.label = "kind";
  const std::string path = dir.write("a.csv", "kind,a,b,c,d\nbat,1,2,3,4\ncat,5,6,7,8\n");
  for (const Data& data : {open_data({.path = path}, model), open_test_data({.path = path}, model)}) {
    const Samples& half = data.train ? *data.train : *data.test;
    EXPECT_THAT(labels_of(half), ElementsAre(2, 0));
    EXPECT_THAT(first_row(half), ElementsAre(4, 3, 2, 1));
  }
  const std::string without = dir.write("b.csv", "a,b,c,d\n1,2,3,4\n");
  EXPECT_THAT(first_row(*open_test_data({.path = without, .needs_labels = false}, model).test),
              ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(error_of([&] { open_test_data({.path = without}, model); }), HasSubstr("has no column 'kind'"));
  // Labels that nobody reads may be of any class.
  const std::string strange = dir.write("c.csv", "kind,a,b,c,d\nelk,1,2,3,4\n");
  EXPECT_THAT(first_row(*open_test_data({.path = strange, .needs_labels = false}, model).test),
              ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(error_of([&] { open_test_data({.path = strange}, model); }), HasSubstr("'elk' is none of the known"));
}

TEST(NamesOfHalves, PartsOfSeveralInputsAreFoundByName) {
  const TemporaryDirectory dir;
  const auto row_of = [&](const std::string& text) {
    const ModelSpec model = find_model("siamese", {.image_size = 1, .channels = 2});
    const std::string train = dir.write("a.csv", "left_0,left_1,right_0,right_1,y\n1,2,3,4,0\n");
    return first_row(*open_halves(train, dir.write("b.csv", text), model).test);
  };
  EXPECT_THAT(row_of("y,right_1,left_1,right_0,left_0\n0,4,20,3,10\n"), ElementsAre(10, 20));
}

TEST(NamesOfHalves, ALabelThatIsNotThereNamesWhatThereIs) {
  const TemporaryDirectory dir;
  const std::string csv = dir.write("a.csv", "a,b,c,d,y\n1,2,3,4,0\n");
  EXPECT_THAT(error_of([&] { open_halves(csv, "", tiny_model(), "nosuch"); }),
              HasSubstr("has no column 'nosuch' to take labels from; it has a, b, c, d, y"));
  const ModelSpec model = find_model("mlp", small_spec().model_options);
  const SmallData arrays(8, 4);
  EXPECT_THAT(error_of([&] { open_data({.path = arrays.folder(), .label = "nosuch"}, model); }),
              HasSubstr("has no 'nosuch' to take labels from; its labels are 'y_train'"));
  std::filesystem::create_directory(dir.path() + "/ape");
  dir.write("ape/a.png", png(picture(4, 4)));
  EXPECT_THAT(
      error_of([&] { open_data({.path = dir.path(), .label = "nosuch"}, find_model("mlp", {.image_size = 4})); }),
      HasSubstr("has no 'nosuch' to take labels from; the labels of images are their folders"));
}

TEST(Normalisation, OnlyFiniteNumbersAreUsedOrSaved) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(model::normalisation_fault({0.5F, -1}, {1, 2}), "");
  for (const float mean : {inf, -inf, nan}) EXPECT_NE(model::normalisation_fault({mean}, {1}), "");
  for (const float deviation : {inf, nan, 0.0F, -1.0F, 1e-45F})
    EXPECT_NE(model::normalisation_fault({0}, {deviation}), "");
  store::StoredFacts facts;
  facts.name = "a";
  facts.preprocessing.deviation = {inf};
  EXPECT_THAT(error_of([&] { store::facts_text(facts); }), HasSubstr("a deviation of inf is not finite"));
}

TEST(NamesOfHalves, AreKeptInTheFactsOfAModel) {
  store::StoredFacts facts;
  facts.name = "a";
  facts.preprocessing.columns = {"width", "height"};
  facts.preprocessing.label = "kind";
  facts.graph.name = "graph.txt";
  facts.weights.name = "weights.safetensors";
  EXPECT_EQ(store::parse_facts(store::facts_text(facts), "a").preprocessing, facts.preprocessing);
}

}  // namespace
}  // namespace plimsoll::input
