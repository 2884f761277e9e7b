// Event files, read back by a parser that shares no code with the writer.
#include "report/event_file.h"

#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "input/files.h"
#include "support/error_of.h"

namespace plimsoll::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Bit by bit, as the polynomial is defined.
uint32_t masked_sum(const std::string& bytes) {
  uint32_t sum = ~0U;
  for (const char byte : bytes) {
    sum ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) sum = (sum & 1U) != 0 ? sum >> 1 ^ 0x82f63b78U : sum >> 1;
  }
  sum = ~sum;
  return (sum >> 15 | sum << 17) + 0xa282ead8U;
}

template <class Number>
Number number_at(const std::string& bytes, size_t at) {
  Number number;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

// A field's values by its number: varints as 8 bytes, all others as they are stored.
using Fields = std::map<uint64_t, std::vector<std::string>>;

Fields parse(const std::string& message) {
  Fields fields;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.at(at++));
      value |= static_cast<uint64_t>(byte & 0x7fU) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.size()) {
    const uint64_t key = varint();
    if (key % 8 == 0) {
      const uint64_t value = varint();
      fields[key / 8].emplace_back(reinterpret_cast<const char*>(&value), 8);
      continue;
    }
    const size_t length = key % 8 == 2 ? varint() : key % 8 == 1 ? 8 : 4;
    if (at + length > message.size()) throw std::out_of_range("a field is longer than its message");
    fields[key / 8].push_back(message.substr(at, length));
    at += length;
  }
  return fields;
}

std::vector<Fields> read_events(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string file = text.str();
  std::vector<Fields> events;
  for (size_t at = 0; at < file.size();) {
    const auto length = number_at<uint64_t>(file, at);
    EXPECT_EQ(number_at<uint32_t>(file, at + 8), masked_sum(file.substr(at, 8)));
    const std::string data = file.substr(at + 12, length);
    EXPECT_EQ(number_at<uint32_t>(file, at + 12 + length), masked_sum(data));
    events.push_back(parse(data));
    at += 16 + length;
  }
  return events;
}

int64_t step_of(const Fields& event) { return number_at<int64_t>(event.at(2).at(0), 0); }
Fields value_of(const Fields& event) { return parse(parse(event.at(5).at(0)).at(1).at(0)); }

class EventFileTest : public ::testing::Test {
 protected:
  testing::TemporaryDirectory folder_;
};

TEST_F(EventFileTest, StartsWithItsVersionUnderANameThatTensorBoardLooksFor) {
  const EventFile file(folder_.path() + "/a/b"), second(folder_.path() + "/a/b");
  EXPECT_THAT(file.path(), HasSubstr("/a/b/events.out.tfevents.1"));
  EXPECT_NE(file.path(), second.path());
  const auto events = read_events(file.path());
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].at(3).at(0), "brain.Event:2");
  EXPECT_NEAR(number_at<double>(events[0].at(1).at(0), 0), static_cast<double>(std::time(nullptr)), 60);
}

TEST_F(EventFileTest, HoldsScalars) {
  EventFile file(folder_.path());
  file.add_scalar("loss", 3, 0.25);
  file.add_scalar("val_loss", int64_t{1} << 40, -7);
  EXPECT_EQ(read_events(file.path()).size(), 1U);  // the others wait in the buffer
  file.flush();
  const auto events = read_events(file.path());
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(step_of(events[1]), 3);
  EXPECT_EQ(value_of(events[1]).at(1).at(0), "loss");
  EXPECT_EQ(number_at<float>(value_of(events[1]).at(2).at(0), 0), 0.25F);
  EXPECT_EQ(step_of(events[2]), int64_t{1} << 40);
  EXPECT_EQ(number_at<float>(value_of(events[2]).at(2).at(0), 0), -7.0F);
}

TEST_F(EventFileTest, HoldsHistograms) {
  EventFile file(folder_.path());
  file.add_histogram("weights", 5, make_histogram(std::vector<float>{-1, 0, 0.5, 2}));
  file.flush();
  const Fields value = value_of(read_events(file.path()).at(1));
  EXPECT_EQ(value.at(1).at(0), "weights");
  const Fields histogram = parse(value.at(5).at(0));
  const auto number = [&](uint64_t field) { return number_at<double>(histogram.at(field).at(0), 0); };
  EXPECT_EQ(number(1), -1);
  EXPECT_EQ(number(2), 2);
  EXPECT_EQ(number(3), 4);
  EXPECT_EQ(number(4), 1.5);
  EXPECT_EQ(number(5), 5.25);
  double counted = 0;
  for (size_t i = 0; i < Histogram::kBuckets; ++i) counted += number_at<double>(histogram.at(7).at(0), 8 * i);
  EXPECT_EQ(counted, 4);
  EXPECT_EQ(number_at<double>(histogram.at(6).at(0), 8 * (Histogram::kBuckets - 1)), 2);
  EXPECT_EQ(histogram.at(6).at(0).size(), 8 * Histogram::kBuckets);
}

TEST_F(EventFileTest, HoldsText) {
  EventFile file(folder_.path());
  file.add_text("plan", 0, "micro-batch 8 of 32");
  file.add_text("long", 1, std::string(EventFile::kLongestText - 1, 'a') + "\u00e9\u00e9");
  file.flush();
  const auto events = read_events(file.path());
  const Fields value = value_of(events.at(1));
  const Fields tensor = parse(value.at(8).at(0));
  EXPECT_EQ(number_at<uint64_t>(tensor.at(1).at(0), 0), 7U);
  EXPECT_THAT(tensor.at(8), ElementsAre("micro-batch 8 of 32"));
  EXPECT_EQ(parse(parse(value.at(9).at(0)).at(1).at(0)).at(1).at(0), "text");
  const std::string cut = parse(value_of(events.at(2)).at(8).at(0)).at(8).at(0);
  EXPECT_THAT(cut, StartsWith(std::string(EventFile::kLongestText - 1, 'a') + "\n... and 4 bytes more"));
}

TEST_F(EventFileTest, OfAResumedRunTakesBackLaterSteps) {
  const EventFile file(folder_.path(), 40);
  const auto events = read_events(file.path());
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(step_of(events[1]), 41);
  EXPECT_EQ(number_at<uint64_t>(parse(events[1].at(7).at(0)).at(1).at(0), 0), 1U);  // SessionLog.START
}

TEST_F(EventFileTest, RefusesAFolderThatCantBeMade) {
  folder_.write("file", "");
  const std::string message = testing::error_of([&] { EventFile(folder_.path() + "/file/events"); });
  EXPECT_THAT(message, HasSubstr("/file/events' can't be made: Not a directory"));
}

}  // namespace
}  // namespace plimsoll::report
