#include "base/nearest.h"

#include <vector>

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(Nearest, CountsLettersToChange) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("epoch", "epochs"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("trian", "train"), 1U);  // two neighbours swapped
  EXPECT_EQ(edit_distance("memroy", "memory"), 1U);
}

TEST(Nearest, IsTheFirstOfTheNearest) {
  const std::vector<std::string> known{"batch", "memory", "epochs", "latch"};
  EXPECT_EQ(nearest("epoch", known), "epochs");
  EXPECT_EQ(nearest("patch", known), "batch");
  EXPECT_EQ(nearest("anything", {}), "");
}

TEST(Nearest, NamesNothingThatHasLittleInCommon) {
  const std::vector<std::string> known{"batch", "memory", "epochs", "val"};
  EXPECT_EQ(likely_meant("mem", known), "memory");
  EXPECT_EQ(likely_meant("validation", known), "val");
  EXPECT_EQ(likely_meant("bathc", known), "batch");
  EXPECT_EQ(likely_meant("xylophone", known), "");
  EXPECT_EQ(likely_meant("", known), "");
  EXPECT_EQ(likely_meant("word", {}), "");
}

}  // namespace
}  // namespace plimsoll
