#include "input/files/tf_example.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "input/records.h"

namespace plimsoll::input {
namespace {

using testing::bytes_list;
using testing::bytes_of;
using ::testing::ElementsAre;
using testing::example;
using testing::float_list;
using ::testing::HasSubstr;
using testing::int64_list;

struct Parsed {
  float x[3] = {};
  int64_t label = 0;
  uint8_t pixels[4] = {};
  std::string fault;
};

Parsed parse(const std::string& record, bool has_fallback = false) {
  Parsed result;
  Feature x{{"x", DType::F32, {3}}, std::nullopt, false, true}, label{{"label", DType::I64}};
  if (has_fallback) x.fallback = 0.5, label.fallback = -7;
  ExampleParser parser({x, label, {{"pixels", DType::U8, {2, 2}}}});
  FeatureTarget into[3] = {{reinterpret_cast<std::byte*>(result.x)},
                           {reinterpret_cast<std::byte*>(&result.label)},
                           {reinterpret_cast<std::byte*>(result.pixels)}};
  result.fault = parser.parse(bytes_of(record), into);
  return result;
}

TEST(TfExample, ReadsPackedAndUnpackedListsInAnyOrder) {
  for (const bool packed : {true, false}) {
    const std::string x = float_list({1.5, -2, 3}, packed), label = int64_list({-9'000'000'000}, packed);
    const std::string pixels =
        packed ? bytes_list({std::string("\x01\x02\xff\x00", 4)}) : int64_list({1, 2, 255, 0}, false);
    for (const std::string& record : {example({{"x", x}, {"label", label}, {"pixels", pixels}}),
                                      example({{"pixels", pixels}, {"other", x}, {"label", label}, {"x", x}}),
                                      example({{"pixels", pixels}}) + example({{"label", label}, {"x", x}})}) {
      const Parsed parsed = parse(record);
      EXPECT_EQ(parsed.fault, "");
      EXPECT_THAT(parsed.x, ElementsAre(1.5, -2, 3));
      EXPECT_EQ(parsed.label, -9'000'000'000);
      EXPECT_THAT(parsed.pixels, ElementsAre(1, 2, 255, 0));
    }
  }
}

TEST(TfExample, TakesDefaultsForWhatIsMissing) {
  const Parsed parsed = parse(example({{"pixels", bytes_list({"abcd"})}, {"x", ""}}), true);
  EXPECT_EQ(parsed.fault, "");
  EXPECT_THAT(parsed.x, ElementsAre(0.5, 0.5, 0.5));
  EXPECT_EQ(parsed.label, -7);
}

TEST(TfExample, SaysWhatIsWrongWithAFeature) {
  const std::string x = float_list({1, 2, 3}), label = int64_list({1}), pixels = bytes_list({"abcd"});
  EXPECT_THAT(parse(example({{"x", x}, {"pixels", pixels}})).fault, HasSubstr("there is no feature 'label'"));
  EXPECT_EQ(parse(example({{"x", float_list({1, 2})}})).fault, "feature 'x': it holds 2 values, but its shape has 3");
  EXPECT_EQ(parse(example({{"x", float_list({1, 2, 3, 4}, false)}})).fault,
            "feature 'x': it holds 4 values, but its shape has 3");
  EXPECT_EQ(parse(example({{"x", int64_list({1, 2, 3})}})).fault, "feature 'x': it holds int64, but f32 is wanted");
  EXPECT_EQ(parse(example({{"label", float_list({1})}})).fault, "feature 'label': it holds floats, but i64 is wanted");
  EXPECT_EQ(parse(example({{"pixels", int64_list({1, 2, 256, 0})}})).fault, "feature 'pixels': 256 does not fit u8");
  EXPECT_THAT(parse(example({{"pixels", bytes_list({"ab", "cd"})}})).fault, HasSubstr("it holds 2 strings"));
  EXPECT_THAT(parse(example({{"x", float_list({1, NAN, 3})}})).fault, HasSubstr("not a number"));
  const std::string whole = example({{"x", x}, {"label", label}, {"pixels", pixels}});
  for (size_t cut = 1; cut < whole.size(); ++cut) EXPECT_NE(parse(whole.substr(0, cut)).fault, "") << cut;
  EXPECT_EQ(testing::refusal(
                [] {
                  ExampleParser(std::vector<Feature>{{{"x", DType::F16}}});
                },
                ErrorKind::Usage),
            "feature 'x': f16 cannot be read from a tf.Example; ask for f32, i32, i64, u8 or bool");
  EXPECT_EQ(testing::refusal(
                [] {
                  ExampleParser(std::vector<Feature>{{{"x", DType::U8}, 256}});
                },
                ErrorKind::Usage),
            "feature 'x': its default 256 is no u8");
}

TEST(TfExample, ListsWhatARecordHolds) {
  const auto found = list_features(bytes_of(example({{"label", int64_list({1})},
                                                     {"image", bytes_list({"\xff\xd8\xff\xe0 and so on"})},
                                                     {"x", float_list({1, 2})},
                                                     {"none", ""}})),
                                   "a record");
  ASSERT_EQ(found.size(), 4);
  EXPECT_EQ(found[0].name, "image");
  EXPECT_TRUE(found[0].is_image);
  EXPECT_EQ(found[1].kind, FoundFeature::Kind::Integers);
  EXPECT_EQ(found[2].kind, FoundFeature::Kind::Empty);
  EXPECT_EQ(found[3].values, 2);
  EXPECT_THAT(testing::refusal([] { list_features(bytes_of("\xff\xff\xff"), "a record"); }),
              HasSubstr("a record: this is no tf.Example"));
}

}  // namespace
}  // namespace plimsoll::input
