#include "run/transfers.h"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "base/random.h"
#include "memory/cgroup.h"
#include "support/disk_folder.h"
#include "support/error_of.h"
#include "support/file_size_limit.h"

namespace plimsoll::run {
namespace {

using namespace memory;

using testing::DiskFolder;
using testing::error_of;
using testing::FileSizeLimit;
using ::testing::HasSubstr;

std::vector<uint64_t> noise(Bytes bytes, uint64_t key) {
  std::vector<uint64_t> numbers(bytes / 8);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = mix_bits(key, i);
  return numbers;
}

TEST(Transfers, BringsBackWhatItTookAway) {
  const DiskFolder folder;
  ScratchFile file(folder, 16 * MiB);
  Transfers transfers(file);
  const std::vector<uint64_t> numbers = noise(5 * MiB + 8, 1);
  std::vector<uint64_t> back(numbers.size());
  EXPECT_EQ(transfers.start_write(8 * MiB, numbers.data(), 5 * MiB + 8), 1);
  EXPECT_EQ(transfers.start_read(8 * MiB, back.data(), 5 * MiB + 8), 2);
  transfers.wait(2);
  EXPECT_EQ(back, numbers);
  EXPECT_FALSE(transfers.failed());
  EXPECT_EQ(transfers.failure(), nullptr);
  transfers.rethrow();
}

TEST(Transfers, CountTheTimeThatTheCallerStoodStill) {
  const DiskFolder folder;
  ScratchFile file(folder, 16 * MiB);
  Transfers transfers(file);
  std::vector<uint64_t> numbers(2 * MiB);
  EXPECT_EQ(transfers.waited_ns(), 0);
  // A caller that is delayed may find all transfers done, but not every time.
  for (int i = 0; i < 1000 && transfers.waited_ns() == 0; ++i)
    transfers.wait(transfers.start_write(0, numbers.data(), 16 * MiB));
  const int64_t waited = transfers.waited_ns();
  EXPECT_GT(waited, 0);
  transfers.wait(1);
  transfers.wait(0);
  EXPECT_EQ(transfers.waited_ns(), waited);  // what is done costs nothing
}

TEST(Transfers, KeepTheirOrderOnOnePlace) {
  const DiskFolder folder;
  ScratchFile file(folder, 64 * KiB);
  Transfers transfers(file);
  constexpr int kRounds = 500;  // many more than fit at once
  static_assert(2 * kRounds > 4 * Transfers::kRequests);
  const Bytes bytes = 24 * KiB;
  std::vector<std::vector<uint64_t>> sent(kRounds), back(kRounds, std::vector<uint64_t>(bytes / 8));
  for (int i = 0; i < kRounds; ++i) {
    sent[i] = noise(bytes, i);
    EXPECT_EQ(transfers.start_write(0, sent[i].data(), bytes), 2 * i + 1);
    EXPECT_EQ(transfers.start_read(0, back[i].data(), bytes), 2 * i + 2);
  }
  transfers.wait_all();
  for (int i = 0; i < kRounds; ++i) ASSERT_EQ(back[i], sent[i]) << i;
}

TEST(Transfers, LetTheMemoryOfAWriteBeUsedAgainAfterItsTicket) {
  const DiskFolder folder;
  ScratchFile file(folder, 64 * MiB);
  Transfers transfers(file);
  const Bytes bytes = MiB;
  std::vector<uint64_t> one(bytes / 8);
  for (int i = 0; i < 40; ++i) {
    const std::vector<uint64_t> numbers = noise(bytes, i);
    std::memcpy(one.data(), numbers.data(), bytes);
    transfers.wait(transfers.start_write(i * bytes, one.data(), bytes));
  }
  for (int i = 39; i >= 0; --i) {
    transfers.wait(transfers.start_read(i * bytes, one.data(), bytes));
    ASSERT_EQ(one, noise(bytes, i)) << i;
  }
}

TEST(Transfers, HandOverTheFirstFailureAndSkipTheRest) {
  const DiskFolder folder;
  ScratchFile file(folder, 8 * MiB);
  Transfers transfers(file);
  const std::vector<uint64_t> numbers = noise(MiB, 1);
  std::vector<uint64_t> back(numbers.size(), 7);
  const std::vector<uint64_t> untouched = back;
  {
    const FileSizeLimit limit(4 * MiB);
    transfers.wait(transfers.start_write(0, numbers.data(), MiB));
    EXPECT_FALSE(transfers.failed());
    transfers.start_write(5 * MiB, numbers.data(), MiB);
    transfers.start_write(6 * MiB, numbers.data(), MiB);
    for (int i = 0; i < 3 * Transfers::kRequests; ++i) transfers.start_read(0, back.data(), MiB);
    transfers.wait_all();
  }
  EXPECT_TRUE(transfers.failed());
  EXPECT_NE(transfers.failure(), nullptr);
  EXPECT_THAT(error_of([&] { transfers.rethrow(); }), HasSubstr("writing 1 MiB at byte 5242880"));
  EXPECT_EQ(back, untouched);
  // It stays failed: what comes after a lost write cannot be trusted.
  transfers.wait(transfers.start_read(0, back.data(), MiB));
  EXPECT_EQ(back, untouched);
}

TEST(Transfers, EndWithRequestsOpen) {
  const DiskFolder folder;
  ScratchFile file(folder, 64 * MiB);
  const std::vector<uint64_t> numbers = noise(MiB, 1);
  for (int round = 0; round < 20; ++round) {
    Transfers transfers(file);
    for (int i = 0; i < 1 + round * 3; ++i) transfers.start_write(i % 60 * MiB, numbers.data(), MiB);
    transfers.wait(1);
  }
  std::vector<uint64_t> back(numbers.size());
  file.read(0, back.data(), MiB);
  EXPECT_EQ(back, numbers);
}

TEST(Transfers, TakeNoSignals) {
  const auto threads = [] {
    std::set<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) paths.insert(entry.path());
    return paths;
  };
  std::thread([] {}).join();  // at the first thread a thread sanitizer starts one of its own
  const std::set<std::string> before = threads();
  const DiskFolder folder;
  ScratchFile file(folder, MiB);
  Transfers transfers(file);
  const uint64_t number = 1;
  transfers.wait(transfers.start_write(0, &number, 8));  // until it runs: a starting thread blocks all signals
  int found = 0;
  for (const std::string& path : threads()) {
    if (before.contains(path)) continue;
    ++found;
    const std::string status = read_small_file(path + "/status");
    const uint64_t blocked = std::stoull(status.substr(status.find("SigBlk:") + 7), nullptr, 16);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGALRM}) EXPECT_TRUE(blocked >> (signal - 1) & 1);
  }
  EXPECT_EQ(found, 1);
}

}  // namespace
}  // namespace plimsoll::run
