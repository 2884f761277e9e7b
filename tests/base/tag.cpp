#include <plimsoll/types.h>

#include <gtest/gtest.h>

#include <plimsoll/error.h>

namespace plimsoll {
namespace {

TEST(Tag, NamesReadBack) {
  for (size_t i = 0; i < kTagCount; ++i) EXPECT_EQ(parse_tag(name_of(static_cast<Tag>(i))), static_cast<Tag>(i));
  EXPECT_EQ(name_of(Tag::Optimiser), "optimiser");
  EXPECT_THROW(parse_tag("food"), Error);
}

}  // namespace
}  // namespace plimsoll
