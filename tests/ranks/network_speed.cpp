// The speed of a network: as people write it, measured between replicas, and what exchanges take at it.
#include "ranks/network_speed.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::ranks {
namespace {

using ::testing::HasSubstr;

TEST(NetworkSpeed, IsWrittenInBitsOrBytesWithTheTimeOfAMessage) {
  EXPECT_DOUBLE_EQ(parse_network("10Gb/s").bytes_per_s, 1.25e9);
  EXPECT_DOUBLE_EQ(parse_network("1.25GB/s").bytes_per_s, 1.25e9);
  EXPECT_DOUBLE_EQ(parse_network("100Mbit/s").bytes_per_s, 12.5e6);
  EXPECT_DOUBLE_EQ(parse_network("1GiB/s").bytes_per_s, 1024.0 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(parse_network("10Gb/s,20us").message_ns, 20'000);
  EXPECT_DOUBLE_EQ(parse_network("10Gb/s,1.5ms").message_ns, 1'500'000);
  EXPECT_GT(parse_network("10Gb/s").message_ns, 0) << "no network answers at once";
  EXPECT_EQ(to_text(parse_network("10Gb/s,20us")), "10 Gb/s, 20 us a message");
  EXPECT_EQ(to_text(parse_network("100Mb/s,1ms")), "100 Mb/s, 1000 us a message");
}

TEST(NetworkSpeed, IsRefusedWhereItIsNone) {
  for (const char* text : {"", "fast", "10", "10Gb", "-1Gb/s", "0Gb/s", "10Gb/s,", "10Gb/s,5", "10Gb/s,-5us", "nanGb/s",
                           "infGB/s", "10gigabit/s", "10Gb/s,5us,6us"}) {
    try {
      parse_network(text);
      FAIL() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::Usage);
      EXPECT_THAT(e.what(), HasSubstr("'" + std::string(text) + "' is no speed of a network; give it as 10Gb/s"));
    }
  }
}

TEST(NetworkSpeed, PricesASumAsItsTwoHalves) {
  const NetworkSpeed speed{1e9, 1000};
  EXPECT_DOUBLE_EQ(predict_half_sum_ns(1e6, 2, speed), 1000 + 0.5e6);
  EXPECT_DOUBLE_EQ(predict_half_sum_ns(1e6, 4, speed), 2 * 1000 + 0.75e6);
  EXPECT_DOUBLE_EQ(predict_sum_ns(1e6, 4, speed), 2 * predict_half_sum_ns(1e6, 4, speed));
  EXPECT_DOUBLE_EQ(half_sum_bytes(1e6, 4), 0.75e6);
  EXPECT_EQ(predict_sum_ns(1e6, 1, speed), 0) << "alone nothing is sent";
  // Five pieces of the buffer that receives.
  EXPECT_DOUBLE_EQ(predict_half_sum_ns(10e6, 2, speed), 5 * 1000 + 5e6);
}

TEST(OnPaper, RanksAreManyAndNobodyAnswers) {
  const auto paper = make_on_paper(64);
  EXPECT_EQ(paper->size(), 64);
  EXPECT_EQ(paper->rank(), 0);
  EXPECT_FALSE(paper->exchange(3, nullptr, 0, nullptr, 0));
  try {
    paper->expect_good();
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "rank 3 was planned but not started");
  }
  EXPECT_THROW(make_on_paper(0), Error);
}

TEST(Replicas, CountWhatTheySendAndHowLongTheyGather) {
  const auto all = make_replicas(2);
  std::vector<std::thread> threads;
  for (const auto& one : all)
    threads.emplace_back([one] {
      std::vector<std::byte> mine(1000), every(2000);
      one->gather(mine, every);
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& one : all) {
    EXPECT_EQ(one->sent_bytes(), 1000);
    EXPECT_GT(one->gathered_ns(), 0);
  }
}

}  // namespace
}  // namespace plimsoll::ranks
