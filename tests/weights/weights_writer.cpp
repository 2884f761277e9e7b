#include "weights/weights_writer.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "base/crc32c.h"

namespace plimsoll::weights {
namespace {

using ::testing::HasSubstr;

class WeightsWriter : public ::testing::Test {
 protected:
  WeightsWriter() { std::filesystem::create_directories(folder_); }
  ~WeightsWriter() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/w.safetensors"; }
  std::string content() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::string folder_ =
      testing::TempDir() + "weights_writer_" + testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::vector<StoredTensor> tensors_{
      {"a", DType::U8, {3}}, {"b", DType::F32, {2, 2}}, {"c", DType::I64, {}}, {"none", DType::F32, {0, 4}}};
  // Byte i of a tensor has the value i, and is written alone.
  const WriteTensor count_up_ = [](const StoredTensor& tensor, const PutBytes& put) {
    for (Bytes i = 0; i < tensor.bytes; ++i) {
      const auto byte = static_cast<std::byte>(i);
      put({&byte, 1});
    }
  };
};

TEST_F(WeightsWriter, WritesWhatTheReaderReads) {
  uint32_t checksum = 0;
  write_weights_file(path(), list_of(tensors_), count_up_,
                     {.steps = 42, .watch = [&](auto bytes) { checksum = crc32c(bytes, checksum); }});
  const WeightsReader reader(path());
  EXPECT_EQ(reader.steps(), 42);
  EXPECT_EQ(reader.tensors(), 4);
  std::vector<std::string> names;
  reader.for_each([&](const StoredTensor& tensor) {
    names.push_back(tensor.name + std::string(name_of(tensor.dtype)) + to_string(tensor.dims));
    for (Bytes i = 0; i < tensor.bytes; ++i) {
      uint8_t byte = 0;
      reader.read(tensor.offset + i, &byte, 1);
      EXPECT_EQ(byte, i);
    }
  });
  EXPECT_THAT(names, testing::ElementsAre("ci64[]", "bf32[2,2]", "nonef32[0,4]", "au8[3]"));
  const std::string text = content();
  EXPECT_EQ(crc32c(std::as_bytes(std::span(text))), checksum);
  EXPECT_LE(static_cast<Bytes>(text.size()), weights_file_bytes(list_of(tensors_)));
}

TEST_F(WeightsWriter, LeavesTheOldFileUnlessEveryTensorIsWhole) {
  write_weights_file(path(), list_of(tensors_), count_up_);
  const std::string before = content();
  const auto message_of = [&](const WriteTensor& write) -> std::string {
    try {
      write_weights_file(path(), list_of(tensors_), write);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message_of([](const StoredTensor&, const PutBytes&) {}), HasSubstr("'c' i64[] has 8 bytes but 0"));
  const std::vector<std::byte> more(9);
  EXPECT_THAT(message_of([&](const StoredTensor&, const PutBytes& put) { put(more); }),
              HasSubstr("but 9 were written"));
  EXPECT_THAT(message_of([&](const StoredTensor&, const PutBytes&) { throw Error("gone"); }), HasSubstr("gone"));
  EXPECT_EQ(content(), before);
}

TEST_F(WeightsWriter, RefusesNamesThatNoFileCanHold) {
  for (const std::string& name : {std::string("__metadata__"), std::string(70'000, 'x'), std::string("\xff")}) {
    const std::vector<StoredTensor> tensors{{name, DType::F32, {1}}};
    EXPECT_THROW(write_weights_file(path(), list_of(tensors), count_up_), Error) << name.substr(0, 20);
    EXPECT_FALSE(std::filesystem::exists(path()));
  }
}

}  // namespace
}  // namespace plimsoll::weights
