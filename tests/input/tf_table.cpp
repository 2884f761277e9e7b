#include "input/files/tf_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "input/pictures.h"
#include "input/records.h"

namespace plimsoll::input {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace plimsoll::testing;

std::string record_of(const std::string& image, int64_t label) {
  return tf_record(example({{"image", bytes_list({image})},
                            {"label", int64_list({label})},
                            {"name", bytes_list({"some text"})},
                            {"x", float_list({1, float(label)})}}));
}

TEST(TfTable, DecodesImagesAndNumbers) {
  const TemporaryDirectory dir;
  std::string content;
  for (uint8_t i = 0; i < 5; ++i) content += record_of(png({2, 2, 1, std::vector<uint8_t>(4, i)}), 10 + i);
  const std::string path = dir.write("a", content);
  const ImageOptions small{.height = 2, .width = 2};
  const std::vector<TfFeature> features = guess_features(path, small);
  const auto table = open_tf_records({path, path}, features);
  EXPECT_EQ(table->elements(), 10);
  EXPECT_THAT(table->fields(), ElementsAre(TableField{"image", DType::U8, {2, 2, 3}},
                                           TableField{"label", DType::I64, {}}, TableField{"x", DType::F32, {2}}));
  const auto reader = table->open_reader();
  for (const int64_t i : {7, 3, 0, 9}) {
    uint8_t pixels[12];
    int64_t label;
    float x[2];
    std::byte* const into[] = {reinterpret_cast<std::byte*>(pixels), reinterpret_cast<std::byte*>(&label),
                               reinterpret_cast<std::byte*>(x)};
    reader->read(i, into);
    EXPECT_EQ(pixels[11], i % 5);
    EXPECT_EQ(label, 10 + i % 5);
    EXPECT_EQ(x[1], float(10 + i % 5));
  }
}

TEST(TfTable, NamesTheRecordOfABadImage) {
  const TemporaryDirectory dir;
  const std::string image = png({2, 2, 1, std::vector<uint8_t>(4, 1)});
  const std::string path = dir.write("a", record_of(image, 1) + record_of(image.substr(0, 40), 2));
  const auto table = open_tf_records({path}, guess_features(path));
  const auto reader = table->open_reader();
  std::vector<std::byte> pixels(224 * 224 * 3), rest(16);
  std::byte* const into[] = {pixels.data(), rest.data(), rest.data() + 8};
  reader->read(0, into);
  EXPECT_THAT(refusal([&] { reader->read(1, into); }), HasSubstr("a: record 1 at byte"));
  EXPECT_THAT(refusal([&] { reader->read(1, into); }), HasSubstr("damaged PNG"));
  const auto wrong = open_tf_records({path}, {{.name = "label"}});
  EXPECT_THAT(refusal([&] { wrong->open_reader()->read(0, into); }),
              HasSubstr("feature 'label': it holds int64, but f32 is wanted"));
  EXPECT_THAT(refusal([&] { open_tf_records({path}, {}); }, ErrorKind::Usage), HasSubstr("no feature is wanted"));
}

TEST(TfTable, ALabelOutsideOfTheClassesIsNamedByItsRecord) {
  const testing::TemporaryDirectory dir;
  std::string records;
  for (const int64_t label : {0, 1, 5})
    records +=
        testing::tf_record(testing::example({{"x", testing::float_list({1, 2})}, {"y", testing::int64_list({label})}}));
  const std::string path = dir.write("a.tfrecord", records);
  std::vector<TfFeature> features = guess_features(path);
  features[1].is_label = true;
  const auto open = [&](const LabelBound& bound) {
    return open_tf_records({path}, features, SparseIndex::kBytes, "", bound);
  };
  const auto table = open({4});
  float x[2];
  int64_t y = 0;
  std::byte* const into[] = {reinterpret_cast<std::byte*>(x), reinterpret_cast<std::byte*>(&y)};
  const auto reader = table->open_reader();
  reader->read(1, into);
  EXPECT_THAT(testing::refusal([&] { reader->read(2, into); }), ::testing::HasSubstr("record 2"));
  EXPECT_THAT(testing::refusal([&] { reader->read(2, into); }), ::testing::HasSubstr("label 5 is not in [0, 4)"));
  open({6})->open_reader()->read(2, into);
  EXPECT_EQ(y, 5);
}

}  // namespace
}  // namespace plimsoll::input
