#include "input/files/tf_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "input/records.h"
#include "input/stages/permutation.h"

namespace plimsoll::input {
namespace {

using ::testing::HasSubstr;
using testing::tf_record;

std::string payload(int64_t i) { return "record " + std::to_string(i) + std::string(static_cast<size_t>(i % 50), 'x'); }

std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(TfRecord, ReadsInAnyOrderFromSeveralFiles) {
  const testing::TemporaryDirectory dir;
  std::vector<std::string> paths;
  int64_t written = 0;
  for (const int64_t count : {40, 0, 1, 59}) {
    std::string content;
    for (int64_t i = 0; i < count; ++i) content += tf_record(payload(written++));
    paths.push_back(dir.write("part" + std::to_string(paths.size()), content));
  }
  const TfRecords records(paths, 16 * sizeof(Bytes));  // an index of every eighth record
  ASSERT_EQ(records.count(), 100);
  TfRecordCursor cursor(records);
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(text(cursor.read(i).data), payload(i));
  const Permutation order(100, 3, 0);
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(text(cursor.read(order(i)).data), payload(order(i)));
}

TEST(TfRecord, ReadsRecordsLongerThanAnyBuffer) {
  const testing::TemporaryDirectory dir;
  const std::string longest(3 * MiB, 'y');
  const TfRecords records({dir.write("a", tf_record("short") + tf_record(longest) + tf_record(""))});
  EXPECT_EQ(records.longest_record(), 3 * MiB);
  TfRecordCursor cursor(records);
  EXPECT_EQ(text(cursor.read(1).data), longest);
  EXPECT_EQ(text(cursor.read(2).data), "");
  EXPECT_EQ(text(cursor.read(0).data), "short");
}

TEST(TfRecord, OfAPackedFileIsThatOfThePlainOne) {
  const testing::TemporaryDirectory dir;
  const std::vector<std::string> parts{"first", "second", std::string(100'000, 'z')};
  std::string plain;
  for (const std::string& part : parts) plain += tf_record(part);
  const TfRecords records({dir.write("a.tfrecord", plain), dir.write("b.tfrecord.gz", testing::gzip(plain))});
  ASSERT_EQ(records.count(), 6);
  TfRecordCursor cursor(records);
  for (const int64_t number : {4, 0, 5, 2, 3, 1}) {
    const TfRecord record = cursor.read(number);
    EXPECT_EQ(text(record.data), parts[static_cast<size_t>(number % 3)]);
    EXPECT_EQ(record.path.ends_with("(unpacked)"), number >= 3);
  }
}

TEST(TfRecord, RefusesDamage) {
  const testing::TemporaryDirectory dir;
  const std::string good = tf_record("first") + tf_record("second");
  const auto refused = [&](const std::string& content) {
    const std::string path = dir.write("bad", content);
    return testing::refusal([&] { TfRecords records({path}); });
  };
  EXPECT_THAT(refused(""), HasSubstr("holds no record"));
  EXPECT_THAT(refused("this is text, not records"), HasSubstr("at byte 0: this is no TFRecord file"));
  EXPECT_THAT(refused(testing::gzip("no record at all")), HasSubstr("(unpacked): at byte 0: this is no TFRecord file"));
  EXPECT_THAT(refused(good.substr(0, good.size() - 1)), HasSubstr("at byte 21: the file ends inside a record"));
  EXPECT_THAT(refused(good.substr(0, 25)), HasSubstr("at byte 21: the file ends inside the header"));
  std::string damaged = good;
  damaged[21] ^= 1;
  EXPECT_THAT(refused(damaged), HasSubstr("at byte 21: the checksum of a record's length is wrong"));
  // Only one record is lost when its data is damaged.
  damaged = good;
  damaged[12] ^= 1;
  const TfRecords records({dir.write("data", damaged)});
  TfRecordCursor cursor(records);
  EXPECT_THAT(testing::refusal([&] { cursor.read(0); }), HasSubstr("data: record 0 at byte 12: the checksum"));
  EXPECT_EQ(text(cursor.read(1).data), "second");
}

TEST(TfRecord, NamesAFileThatVanishedOrShrank) {
  const testing::TemporaryDirectory dir;
  const std::string path = dir.write("gone", tf_record("first") + tf_record(std::string(MiB, 'x')));
  const TfRecords records({path});
  TfRecordCursor cursor(records);
  cursor.read(0);
  std::filesystem::resize_file(path, 500'000);
  EXPECT_THAT(testing::refusal([&] { cursor.read(1); }), HasSubstr("at byte 500000: the file ends; it became shorter"));
  std::filesystem::remove(path);
  EXPECT_THAT(testing::refusal([&] { TfRecordCursor(records).read(0); }), HasSubstr("gone: No such file"));
}

}  // namespace
}  // namespace plimsoll::input
