#include "weights/weights_reader.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "memory/process.h"
#include "support/error_of.h"
#include "support/sanitizer.h"

namespace plimsoll::weights {
namespace {

using namespace memory;

using testing::error_of;
using ::testing::HasSubstr;

class WeightsReaderTest : public ::testing::Test {
 protected:
  ~WeightsReaderTest() override { std::filesystem::remove(path); }

  void write(const std::string& header, size_t data_bytes) const {
    std::ofstream file(path, std::ios::binary);
    const uint64_t size = header.size();
    file.write(reinterpret_cast<const char*>(&size), 8);
    file << header << std::string(data_bytes, 'x');
  }
  std::string refusal(const std::string& header, size_t data_bytes) const {
    write(header, data_bytes);
    return error_of([&] { WeightsReader reader(path); });
  }
  static std::string f32(const std::string& name, int begin, int end) {
    return fmt::format(R"("{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})", name, (end - begin) / 4, begin,
                       end);
  }

  std::string path = ::testing::TempDir() + "reader_" + std::to_string(::getpid());
};

TEST_F(WeightsReaderTest, TakesTensorsInAnyOrder) {
  write(
      "{" + f32("b", 8, 16) + ", \n" + f32("none", 8, 8) + "," + f32("a", 0, 8) + R"(,"__metadata__":{"steps":"3"}}  )",
      16);
  const WeightsReader reader(path);
  EXPECT_EQ(reader.tensors(), 3);
  EXPECT_EQ(reader.steps(), 3);
  EXPECT_EQ(reader.data_bytes(), 16);
}

TEST_F(WeightsReaderTest, RefusesWhatDoesNotCoverTheDataExactly) {
  EXPECT_EQ(refusal("{" + f32("a", 0, 8) + "," + f32("b", 8, 16) + "}", 16), "no error");
  EXPECT_THAT(refusal("{" + f32("a", 0, 8) + "," + f32("b", 4, 16) + "}", 16), HasSubstr("overlap"));
  EXPECT_THAT(refusal("{" + f32("a", 0, 8) + "," + f32("b", 0, 8) + "}", 8), HasSubstr("overlap"));
  EXPECT_THAT(refusal("{" + f32("a", 0, 4) + "," + f32("b", 8, 16) + "}", 16), HasSubstr("belong to none"));
  EXPECT_THAT(refusal("{" + f32("a", 4, 16) + "}", 16), HasSubstr("'a'"));
  EXPECT_THAT(refusal("{" + f32("a", 0, 8) + "}", 9), HasSubstr("1 bytes follow its last tensor"));
  // An overlap and a gap of the same length: the sum of all lengths is right.
  EXPECT_THAT(refusal("{" + f32("a", 0, 8) + "," + f32("b", 4, 12) + "," + f32("c", 16, 24) + "}", 24),
              HasSubstr("out of line is 'b'"));
}

TEST_F(WeightsReaderTest, RefusesUnalignedTensors) {
  const std::string byte = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_THAT(refusal("{" + byte + "," + f32("b", 1, 5) + "}", 5), HasSubstr("'b' starts at byte 1"));
}

TEST_F(WeightsReaderTest, RefusesNamesAndFieldsThatStandTwice) {
  EXPECT_THAT(refusal("{" + f32("a", 0, 8) + "," + f32("a", 8, 16) + "}", 16), HasSubstr("twice"));
  EXPECT_THAT(refusal("{" + f32("a", 0, 8) + R"(,"\u0061":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})", 16),
              HasSubstr("twice"));
  EXPECT_THAT(refusal(R"({"__metadata__":{},"__metadata__":{}})", 0), HasSubstr("twice"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"a":"1","a":"2"}})", 0), HasSubstr("twice"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
              HasSubstr("is damaged"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}})", 1),
              HasSubstr("is damaged"));
}

TEST_F(WeightsReaderTest, RefusesSizesThatOverflow) {
  const auto entry = [](const std::string& shape, const std::string& offsets) {
    return R"({"a":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  EXPECT_THAT(refusal(entry("[4294967296,4294967296]", "[0,0]"), 0), HasSubstr("does not lie within"));
  EXPECT_THAT(refusal(entry("[4611686018427387904]", "[0,0]"), 0), HasSubstr("does not lie within"));
  EXPECT_THAT(refusal(entry("[18446744073709551615]", "[0,4]"), 4), HasSubstr("over 2^63"));
  EXPECT_THAT(refusal(entry("[1]", "[9223372036854775804,9223372036854775807]"), 4), HasSubstr("does not lie within"));
  EXPECT_THAT(refusal(entry("[1]", "[4,0]"), 4), HasSubstr("does not lie within"));
  EXPECT_THAT(refusal(entry("[-1,-1]", "[0,4]"), 4), HasSubstr("negative size"));
  EXPECT_THAT(refusal(entry("[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4), HasSubstr("more than 8 dimensions"));
  EXPECT_THAT(refusal(entry("[1.0]", "[0,4]"), 4), HasSubstr("is damaged"));
  EXPECT_THAT(refusal(entry("[[1]]", "[0,4]"), 4), HasSubstr("is damaged"));
  EXPECT_THAT(refusal(entry("[1]", "[0,4,8]"), 4), HasSubstr("is damaged"));
  EXPECT_THAT(refusal(entry("[1]", "[0]"), 4), HasSubstr("is damaged"));
}

TEST_F(WeightsReaderTest, RefusesTextBehindTheHeader) {
  EXPECT_THAT(refusal("{} {}", 0), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(std::string("{}\0{", 4), 0), HasSubstr("a zero"));
  EXPECT_THAT(refusal("[]", 0), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal("", 0), HasSubstr("not a JSON object"));
}

TEST_F(WeightsReaderTest, RefusesPipesDevicesAndFoldersAtOnce) {
  ::unlink(path.c_str());
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  for (const std::string& other : {path, std::string("/dev/zero"), std::string("/dev/tty"), ::testing::TempDir()})
    EXPECT_THAT(error_of([&] { WeightsReader reader(other); }), HasSubstr(other));
}

// The memory of a reader must not grow with the header.
TEST_F(WeightsReaderTest, LongHeadersTakeNoMemory) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  std::string many = "{";
  for (int i = 0; i < 200'000; ++i)
    many += fmt::format(R"({}"tensor{}":{{"dtype":"F32","shape":[1],"data_offsets":[{},{}]}})", i ? "," : "", i, 4 * i,
                        4 * i + 4);
  std::string twice = many + "," + f32("tensor7", 800'000, 800'004) + "}";
  many += "}";
  constexpr size_t kLong = 20'000'000;
  struct Case {
    std::string header;
    size_t data_bytes;
    const char* fault;
  };
  std::vector<Case> cases;
  cases.push_back({many, 800'000, "no error"});
  cases.push_back({twice, 800'004, "twice"});
  cases.push_back({"{" + std::string(kLong, ' ') + "}", 0, "no error"});
  cases.push_back({"{\"" + std::string(kLong, 'n') + "\":{}}", 0, "text or number of more than 64 KiB"});
  cases.push_back({R"({"a":{"shape":[)" + std::string(kLong, '1') + "]}}", 0, "text or number of more than 64 KiB"});
  cases.push_back({std::string(kLong, '{'), 0, "not a JSON object"});
  cases.push_back({R"({"a":)" + std::string(kLong, '['), 0, "is damaged"});
  cases.push_back({R"({"__metadata__":{"t":")" + std::string(kLong, 't') + "\"}}", 0, "text or number of more"});
  for (Case& one : cases) {
    write(one.header, one.data_bytes);
    const std::string start = one.header.substr(0, 40);
    one.header = {};
    trim_allocator();
    if (!reset_peak_resident()) GTEST_SKIP() << "the peak can't be reset here";
    const Bytes before = peak_resident_bytes();
    EXPECT_THAT(error_of([&] { WeightsReader reader(path); }), HasSubstr(one.fault)) << start;
    EXPECT_LE(peak_resident_bytes() - before, WeightsReader::kBytes) << start;
  }
}

}  // namespace
}  // namespace plimsoll::weights
