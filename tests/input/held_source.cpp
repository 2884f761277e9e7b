#include "input/files/held_source.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "input/files.h"

namespace plimsoll::input {
namespace {

using ::testing::ElementsAre;

TEST(HeldSource, ReadsSmallArraysFromMemory) {
  const testing::TemporaryDirectory dir;
  const std::string path =
      dir.write("y", testing::npy("'<i8'", "(4, 2)", testing::raw<int64_t>({1, 2, 3, 4, 5, 6, 7, 8})));
  std::unique_ptr<Source> plain = open_source(path);
  EXPECT_EQ(bytes_to_hold(*plain), 64);
  const auto held = hold_if_small(std::move(plain));
  EXPECT_EQ(held->name(), path);
  EXPECT_EQ(held->samples(), 4);
  EXPECT_EQ(held->dtype(), DType::I64);
  EXPECT_THAT(held->sample_shape(), ElementsAre(2));
  std::filesystem::resize_file(path, 0);  // what is in the file no longer matters
  std::vector<int64_t> values(4);
  held->read(1, 2, values.data());
  EXPECT_THAT(values, ElementsAre(3, 4, 5, 6));
}

TEST(HeldSource, LeavesOthersInTheirFiles) {
  const testing::TemporaryDirectory dir;
  for (const auto& [shape, bytes] : {std::pair("(2, 17)", 34), {"(2097153,)", 2'097'153}}) {
    std::unique_ptr<Source> plain = open_source(dir.write("x", testing::npy("'|u1'", shape, std::string(bytes, 'a'))));
    const Source* const before = plain.get();
    EXPECT_EQ(bytes_to_hold(*plain), 0) << shape;
    EXPECT_EQ(hold_if_small(std::move(plain)).get(), before) << shape;
  }
}

}  // namespace
}  // namespace plimsoll::input
