#include "memory/arena.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "memory/process.h"
#include "support/cgroup.h"
#include "support/sanitizer.h"

namespace plimsoll::memory {
namespace {

Bytes resident_pages(const Arena& arena) {
  std::vector<unsigned char> pages(arena.maximum() / Arena::kPage);
  EXPECT_EQ(::mincore(arena.data(), arena.maximum(), pages.data()), 0);
  Bytes resident = 0;
  for (const unsigned char page : pages) resident += (page & 1) * Arena::kPage;
  return resident;
}

TEST(Arena, TakesAddressesOnly) {
  const Bytes before = resident_bytes();
  const Arena arena(64 * GiB);
  EXPECT_EQ(arena.committed(), 0);
  EXPECT_LT(resident_bytes() - before, MiB);
}

TEST(Arena, IsResidentToThePageAndNoFurther) {
  for (const Bytes bytes : {Bytes(1), Arena::kPage, 3 * MiB + 1, 4 * MiB, 5 * MiB + 123, 33 * MiB + 4097}) {
    Arena arena(64 * MiB);
    arena.commit(bytes);
    EXPECT_EQ(arena.committed(), round_up(bytes, Arena::kPage));
    EXPECT_EQ(resident_pages(arena), round_up(bytes, Arena::kPage));
    std::memset(arena.data(), 1, bytes);
    EXPECT_EQ(resident_pages(arena), round_up(bytes, Arena::kPage));
  }
}

TEST(Arena, GrowsInPlaceAndKeepsItsContent) {
  Arena arena(16 * MiB);
  arena.commit(5 * MiB + 1);
  std::memset(arena.data(), 7, arena.committed());
  std::byte* const data = arena.data();
  arena.commit(2 * MiB);
  EXPECT_EQ(arena.committed(), 5 * MiB + Arena::kPage);
  arena.commit(16 * MiB);
  EXPECT_EQ(arena.data(), data);
  EXPECT_EQ(data[5 * MiB], std::byte{7});
  EXPECT_EQ(data[16 * MiB - 1], std::byte{0});
  EXPECT_EQ(resident_pages(arena), 16 * MiB);
}

TEST(Arena, LiesOnAHugePageWhenLarge) {
  EXPECT_EQ(reinterpret_cast<uintptr_t>(Arena(4 * MiB).data()) % (2 * MiB), 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(Arena(5).data()) % Arena::kPage, 0u);
  EXPECT_EQ(Arena(0).data(), nullptr);
}

TEST(Arena, GivesBackOnRelease) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  Arena arena(64 * MiB);
  const Bytes before = resident_bytes();
  arena.commit(64 * MiB);
  EXPECT_GE(resident_bytes() - before, 63 * MiB);
  arena.release();
  EXPECT_LT(resident_bytes() - before, MiB);
  EXPECT_EQ(arena.committed(), 0);
  arena.commit(MiB);
  EXPECT_EQ(arena.data()[0], std::byte{0});
}

TEST(Arena, MovesItsPages) {
  Arena from(8 * MiB);
  from.commit(MiB);
  from.data()[5] = std::byte{5};
  const Arena to(std::move(from));
  EXPECT_EQ(to.data()[5], std::byte{5});
  EXPECT_EQ(from.committed(), 0);
}

TEST(Arena, SaysWhenTheMachineHasTooLittle) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  Arena arena(int64_t(1) << 45);
  try {
    arena.commit(arena.maximum());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::DoesNotFit);
    EXPECT_NE(std::string(error.what()).find("are available"), std::string::npos) << error.what();
  }
  EXPECT_EQ(arena.committed(), 0);
  EXPECT_NO_THROW(arena.commit(MiB));
}

TEST(Arena, SaysWhenThereAreNoAddresses) {
  try {
    const Arena arena(int64_t(1) << 60);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::DoesNotFit);
  }
}

TEST(Arena, StaysAsItWasWhenTheKernelRefuses) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  Arena arena(64 * MiB);
  arena.commit(MiB);
  arena.data()[0] = std::byte{3};
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_DATA, &before), 0);
  const rlimit tight{16 * MiB, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &tight), 0);
  std::string refusal;
  try {
    arena.commit(64 * MiB);
  } catch (const Error& error) {
    refusal = error.what();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &before), 0);
  EXPECT_NE(refusal.find("Cannot allocate memory"), std::string::npos) << refusal;
  EXPECT_EQ(arena.committed(), MiB);
  EXPECT_EQ(resident_pages(arena), MiB);
  EXPECT_EQ(arena.data()[0], std::byte{3});
  EXPECT_NO_THROW(arena.commit(64 * MiB));
}

int commit_64_mib() {
  Arena arena(64 * MiB);
  try {
    arena.commit(64 * MiB);
  } catch (const Error& error) {
    return error.exit_code();
  }
  return 0;
}

TEST(Arena, RefusesInsteadOfBeingKilledByAControlGroup) {
  const auto outcome = testing::run_limited(commit_64_mib, 32 * MiB);
  if (!outcome.run) GTEST_SKIP() << outcome.reason;
  EXPECT_EQ(outcome.run->exit_code, 3);
  EXPECT_FALSE(outcome.run->oom_killed);
}

TEST(Arena, CommitsInAControlGroupThatIsLargeEnough) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const auto outcome = testing::run_limited(commit_64_mib, 72 * MiB);
  if (!outcome.run) GTEST_SKIP() << outcome.reason;
  EXPECT_EQ(outcome.run->exit_code, 0);
}

}  // namespace
}  // namespace plimsoll::memory
