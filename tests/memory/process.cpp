#include "memory/process.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "support/cgroup.h"
#include "support/sanitizer.h"

namespace plimsoll::memory {
namespace {

TEST(Process, SeesWhatIsResident) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const Bytes before = resident_bytes();
  ASSERT_GT(before, 0);
  {
    const std::vector<char> held(64 * MiB, 1);
    EXPECT_GE(resident_bytes() - before, 60 * MiB);
  }
  EXPECT_GE(peak_resident_bytes(), before + 60 * MiB);
}

TEST(Process, ALineThatWasPassedIsAnError) {
  EXPECT_NO_THROW(expect_line_kept(peak_resident_bytes() + MiB));
  EXPECT_THROW(expect_line_kept(peak_resident_bytes() - MiB), Error);
}

// Code that was unmapped comes back when it runs.
TEST(Process, CodeCanBeDropped) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const Bytes before = measure_process_memory().file_bytes;
  drop_code_pages();
  EXPECT_LT(measure_process_memory().file_bytes, before);
}

// Counted by the allocator: what is asked for, whether or not it was touched.
TEST(Process, CountsItsHeap) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const Bytes before = measure_process_memory().heap_bytes;
  const auto held = std::make_unique<char[]>(8 * MiB);
  EXPECT_NEAR(static_cast<double>(measure_process_memory().heap_bytes - before), 8.0 * MiB, 64.0 * KiB);
}

TEST(Process, PeakStartsAgain) {
  { const std::vector<char> held(64 * MiB, 1); }
  trim_allocator();
  if (!reset_peak_resident()) GTEST_SKIP() << "the kernel does not allow it";
  EXPECT_LT(peak_resident_bytes(), resident_bytes() + 16 * MiB);
}

TEST(Process, TamedAllocatorGivesBackSmallPieces) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  tame_allocator();
  const Bytes before = resident_bytes();
  {
    std::vector<std::unique_ptr<char[]>> pieces;
    for (int i = 0; i < 4096; ++i) {
      pieces.push_back(std::make_unique<char[]>(8 * KiB));
      std::memset(pieces.back().get(), 1, 8 * KiB);
    }
    EXPECT_GE(resident_bytes() - before, 30 * MiB);
  }
  EXPECT_LT(resident_bytes() - before, 2 * MiB);
}

TEST(Process, KnowsTheDisk) {
  EXPECT_GT(available_disk_bytes("/"), 0);
  EXPECT_THROW(available_disk_bytes("/no/such/directory"), Error);
  EXPECT_FALSE(is_memory_backed("/no/such/directory"));
}

TEST(Process, KnowsWhatIsAvailable) {
  EXPECT_GT(available_memory_bytes(), 0);
  const auto outcome = testing::run_limited([] { return available_memory_bytes() <= 64 * MiB ? 0 : 1; }, 64 * MiB);
  if (!outcome.run) GTEST_SKIP() << outcome.reason;
  EXPECT_EQ(outcome.run->exit_code, 0);
}

}  // namespace
}  // namespace plimsoll::memory
