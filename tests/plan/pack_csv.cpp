#include "plan/pack/pack_csv.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>

namespace plimsoll::plan {
namespace {

TEST(PackCsv, ReadsATableAndWritesOffsets) {
  std::istringstream in("id,lower,upper,size\nb1,0,3,4\r\n b2 , 3,9,4\n\nb3,0,9,4\n");
  const PackTable table = read_packing_csv(in);
  ASSERT_EQ(table.items.size(), 3);
  EXPECT_EQ(table.ids[1], "b2");
  const Packing packing = pack(table.items, 1, 0, {});
  EXPECT_EQ(packing.height, 8);
  std::ostringstream out;
  write_packing_csv(out, table, packing);
  EXPECT_THAT(out.str(), ::testing::StartsWith("id,lower,upper,size,offset\nb1,0,3,4,"));
  std::istringstream again(out.str());
  EXPECT_EQ(read_packing_csv(again).items.size(), 3);
}

TEST(PackCsv, RefusalsNameTheLine) {
  const auto refuse = [](const char* text, const char* says) {
    std::istringstream in(text);
    try {
      read_packing_csv(in);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), ::testing::HasSubstr(says));
    }
  };
  refuse("id,lower,upper\n", "line 1: column 'size' is missing");
  refuse("id,lower,upper,size\na,1,2\n", "line 2: it has too few columns");
  refuse("id,lower,upper,size\na,1,2,x\n", "line 2: size is 'x', not a whole number");
  refuse("id,lower,upper,size\na,1,2,3\nb,5,5,1\n", "line 3: lower is not below upper");
  refuse("id,lower,upper,size\na,1,2,-3\n", "line 2: size is below zero");
}

}  // namespace
}  // namespace plimsoll::plan
