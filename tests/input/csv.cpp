#include "input/files/csv.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "input/files.h"
#include "input/files/csv_guess.h"
#include "input/stages/permutation.h"

namespace plimsoll::input {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Csv : public ::testing::Test {
 protected:
  std::unique_ptr<Table> open(const std::string& content, const CsvOptions& options = {}) {
    return open_csv(dir_.write("a.csv", content), options);
  }
  std::string refused(const std::string& content, const CsvOptions& options = {}) {
    return testing::refusal([&] { read_all(*open(content, options)); });
  }
  // The fields "x" and "y" of all rows.
  struct Rows {
    std::vector<float> x;
    std::vector<int64_t> y;
  };
  static Rows read_all(const Table& table) {
    Rows rows;
    const auto reader = table.open_reader();
    for (int64_t i = 0; i < table.elements(); ++i) {
      std::vector<std::vector<std::byte>> fields;
      std::vector<std::byte*> into;
      for (const TableField& field : table.fields()) fields.emplace_back(static_cast<size_t>(field.bytes()));
      for (auto& field : fields) into.push_back(field.data());
      reader->read(i, into);
      const auto* const x = reinterpret_cast<const float*>(fields[0].data());
      rows.x.insert(rows.x.end(), x, x + table.fields()[0].elements());
      if (fields.size() > 1 && table.fields()[1].dtype == DType::I64)
        rows.y.push_back(*reinterpret_cast<const int64_t*>(fields[1].data()));
    }
    return rows;
  }
  testing::TemporaryDirectory dir_;
};

TEST_F(Csv, ReadsFeaturesAndALabel) {
  const auto table = open("a,label,b\n1,3,2.5\n-1e3,4,+7\r\n nan ,5,inf\n\n\n", {.label = "label"});
  EXPECT_EQ(table->elements(), 3);
  EXPECT_THAT(table->fields(), ElementsAre(TableField{"x", DType::F32, {2}}, TableField{"y", DType::I64, {}}));
  const Rows rows = read_all(*table);
  EXPECT_THAT(rows.y, ElementsAre(3, 4, 5));
  EXPECT_EQ(rows.x[2], -1000);
  EXPECT_EQ(rows.x[3], 7);
  EXPECT_TRUE(std::isnan(rows.x[4]));
}

TEST_F(Csv, NumbersItsCategoriesByTheirOrder) {
  const auto table = open("size,kind\n1,pear\n2,\"apple, green\"\n3,pear\n4,\"a \"\"b\"\"\"\n", {.label = "kind"});
  EXPECT_THAT(table->classes(), ElementsAre("a \"b\"", "apple, green", "pear"));
  EXPECT_THAT(read_all(*table).y, ElementsAre(2, 1, 2, 0));
  const auto floats = open("1;0.5\n2;1\n", {.syntax = {.separator = ';'}, .has_header = false, .label = "1"});
  EXPECT_EQ(floats->fields()[1], (TableField{"y", DType::F32, {}}));
}

TEST_F(Csv, TakesTheColumnsThatAreAskedFor) {
  const auto table = open("\xef\xbb\xbfid,a,b,c\n10,1,2,x\n20,3,4,y\n", {.columns = {{"b", CsvType::Float, "in"},
                                                                                     {"a", CsvType::Float, "in"},
                                                                                     {"id", CsvType::Integer},
                                                                                     {"c", CsvType::Category}},
                                                                         .label = "c"});
  EXPECT_THAT(table->fields(), ElementsAre(TableField{"in", DType::F32, {2}}, TableField{"id", DType::I64, {}},
                                           TableField{"c", DType::I64, {}}));
  const Rows rows = read_all(*table);
  EXPECT_THAT(rows.x, ElementsAre(2, 1, 4, 3));
  EXPECT_THAT(rows.y, ElementsAre(10, 20));
  EXPECT_THAT(table->classes(), ElementsAre("x", "y"));
}

TEST_F(Csv, QuotedLineBreaksAndMissingValues) {
  const auto table = open("\"a\nb\",c\n\"1\",\n\"\",\"3\"", {.missing = -1});
  EXPECT_THAT(read_all(*table).x, ElementsAre(1, -1, -1, 3));
}

TEST_F(Csv, ReadsInAnyOrderWithASmallIndexAlsoFromGzip) {
  std::string text = "v,w\n";
  for (int i = 0; i < 5000; ++i)
    text += std::to_string(i) + ",\"" + std::string(static_cast<size_t>(i % 90), '\n') + "\"\n";
  for (const std::string& content : {text, testing::gzip(text)}) {
    const auto table = open(content, {.columns = {{"v"}}, .scratch_dir = dir_.path(), .index_bytes = 256});
    ASSERT_EQ(table->elements(), 5000);
    EXPECT_EQ(table->held_bytes(), 256);
    const auto reader = table->open_reader();
    const Permutation order(5000, 1, 0);
    for (int64_t i = 0; i < 300; ++i) {
      float value = 0;
      std::byte* const into[] = {reinterpret_cast<std::byte*>(&value)};
      reader->read(order(i), into);
      EXPECT_EQ(value, static_cast<float>(order(i)));
    }
  }
}

TEST_F(Csv, RefusesAndNamesFileRowAndColumn) {
  EXPECT_THAT(refused("a,b\n1,2\n3\n"),
              HasSubstr("a.csv: row 3 (at byte 8): the row has 1 fields, the first row has 2"));
  EXPECT_THAT(refused("a,b\n1,2\n3,4,5\n"), HasSubstr("row 3 (at byte 8): the row has 3 fields"));
  EXPECT_THAT(refused("a,b\n1,2\n\n3,4\n"), HasSubstr("row 3"));
  EXPECT_THAT(refused("a,b\n1,2\n3,four\n"), HasSubstr("row 3, column 'b': 'four' is no number"));
  EXPECT_THAT(refused("a,b\n1,\n"), HasSubstr("row 2, column 'b': the field is empty"));
  EXPECT_THAT(refused("a,b\n1,1e39\n"), HasSubstr("'1e39' does not fit f32"));
  EXPECT_THAT(refused("a,y\n1,0.5\n2,nan\n", {.label = "y"}), HasSubstr("row 3, column 'y': 'nan' is a label that"));
  EXPECT_THAT(refused("a,y\n1,7\n2,\n", {.label = "y", .label_type = CsvType::Integer, .missing = 0}),
              HasSubstr("the label is empty"));
  EXPECT_THAT(refused("a,y\n1,7\n2,7.5\n", {.label = "y", .label_type = CsvType::Integer}), HasSubstr("is no integer"));
  EXPECT_THAT(refused("a,b\n\"1\"2,3\n"), HasSubstr("row 2, column 0: a quote is not closed, or text follows it"));
  EXPECT_THAT(refused("a\n\"1\n2\n"), HasSubstr("a quote is not closed"));
  EXPECT_THAT(refused(""), HasSubstr("holds no row"));
  EXPECT_THAT(refused("a,b\n"), HasSubstr("a header and no row"));
  EXPECT_THAT(refused("a\n" + std::string(200'000, '1') + "\n", {.longest_row = 1000}),
              HasSubstr("longer than 64 KiB"));
  EXPECT_THAT(testing::refusal([&] { open("a,b\n1,2\n", {.label = "c"}); }, ErrorKind::Usage),
              HasSubstr("there is no column 'c'; the first of 2 are a, b"));
  EXPECT_THAT(refused(testing::gzip("a,b\n1,2\n").substr(0, 20), {.scratch_dir = dir_.path()}), HasSubstr("cut off"));
}

TEST_F(Csv, KnownClassesHaveTheirNumbers) {
  const CsvOptions options{.label = "y", .classes = {"dog", "cat", "bird"}};
  const auto table = open("x,y\n1,cat\n2,dog\n3,cat\n", options);
  EXPECT_THAT(read_all(*table).y, ElementsAre(1, 0, 1));
  EXPECT_THAT(table->classes(), ElementsAre("dog", "cat", "bird"));
  const CsvOptions numbers{.label = "y", .classes = {"3", "7"}};
  EXPECT_THAT(read_all(*open("x,y\n1,7\n2,3\n", numbers)).y, ElementsAre(1, 0));
  EXPECT_THAT(refused("x,y\n1,cat\n2,fish\n", options),
              AllOf(HasSubstr("row 3"), HasSubstr("'fish' is none of the known classes dog, cat, bird")));
}

TEST_F(Csv, GuessesNamesAsTheTableHasThem) {
  const std::string path = dir_.write("marked.csv", "\xef\xbb\xbfkind, size\na,1\nb,2\n");
  const CsvOptions guessed = guess_csv(path);
  EXPECT_EQ(guessed.columns[0].column, "kind");
  EXPECT_EQ(guessed.columns[1].column, "size");
  EXPECT_EQ(open_csv(path, guessed)->elements(), 2);
}

}  // namespace
}  // namespace plimsoll::input
