#include "input/opening/summary.h"

#include <gtest/gtest.h>

#include "input/files.h"
#include "input/opening/detect.h"

namespace plimsoll::input {
namespace {

TEST(Summary, StatisticsAndFirstElements) {
  const testing::TemporaryDirectory dir;
  const auto table = open_table(dir.write("a.csv", "v,big,kind\n1.5,10000000001,b\nnan,1,a\n-3,1,b\n9,1,b\n"));
  EXPECT_EQ(describe(summarise(*table)),
            "over 4 elements:\n"
            "  v                least -3, mean 2.5, most 9, 1 not a number\n"
            "  big              least 1, mean 2.5e+09, most 1e+10\n"
            "  kind             least 0, mean 0.75, most 1\n"
            "element 0:\n  v                1.5\n  big              1e+10\n  kind             1\n"
            "element 1:\n  v                nan\n  big              1\n  kind             0\n"
            "element 2:\n  v                -3\n  big              1\n  kind             1\n");
}

TEST(Summary, ManyFieldsAreCut) {
  const testing::TemporaryDirectory dir;
  std::string header = "y", row = "a";
  for (int i = 0; i < 100; ++i) {
    header += ",x_" + std::to_string(i);
    row += ",0.5";
  }
  const std::string path = dir.write("a.csv", header + "\n" + row + "\n");
  EXPECT_EQ(describe(detect(path, {dir.path()})).substr(path.size()),
            ": a CSV file, 1 elements of y i64[], x_0 f32[] ... x_99 f32[] (100 alike); 1 classes: a\n");
  const std::string text = describe(summarise(*open_table(path)));
  EXPECT_NE(text.find("x_18 "), std::string::npos);
  EXPECT_EQ(text.find("x_19 "), std::string::npos);
  EXPECT_NE(text.find("... and 81 more fields"), std::string::npos);
}

TEST(Summary, LooksAtElementsOfTheWholeFile) {
  const testing::TemporaryDirectory dir;
  std::vector<int32_t> values(5000);
  for (int32_t i = 0; i < 5000; ++i) values[static_cast<size_t>(i)] = i;
  const auto table = open_table(dir.write("a.npy", testing::npy("'<i4'", "(500, 10)", testing::raw(values))));
  const TableSummary all = summarise(*table);
  EXPECT_EQ(all.elements, 500);
  EXPECT_EQ(all.fields[0].most, 4999);
  EXPECT_EQ(all.fields[0].mean, 2499.5);
  EXPECT_EQ(all.fields[0].first[2].size(), 8);
  EXPECT_EQ(all.fields[0].first[2][0], 20);
}

}  // namespace
}  // namespace plimsoll::input
