#include <plimsoll/memory_line.h>

#include <sys/resource.h>

#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <plimsoll/error.h>
#include "support/sanitizer.h"

namespace plimsoll::memory {
namespace {

TEST(MemoryLine, CountsByTagAndGivesBack) {
  MemoryLine line(100 * MiB);
  {
    const Reservation weights = line.reserve(Tag::Weights, 60 * MiB);
    const Reservation data = line.reserve(Tag::Data, 40 * MiB);
    EXPECT_EQ(line.used(), 100 * MiB);
    EXPECT_EQ(line.used(Tag::Weights), 60 * MiB);
    EXPECT_EQ(line.used(Tag::Data), 40 * MiB);
    EXPECT_EQ(line.free(), 0);
  }
  EXPECT_EQ(line.used(), 0);
  EXPECT_EQ(line.used(Tag::Weights), 0);
  EXPECT_EQ(line.peak(), 100 * MiB);
}

TEST(MemoryLine, RefusesTheByteTooMany) {
  MemoryLine line(100 * MiB);
  const Reservation weights = line.reserve(Tag::Weights, 60 * MiB);
  try {
    const Reservation more = line.reserve(Tag::Activations, 40 * MiB + 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::DoesNotFit);
    EXPECT_STREQ(
        error.what(),
        "does not fit: needs 104,857,601 bytes (100 MiB) but the line is 104,857,600 bytes (100 MiB), 1 B short\n"
        "  activations asks for 41,943,041 bytes (40 MiB), 40 MiB are free\n"
        "  the largest holders there:\n      60 MiB  weights      held already\nsmallest line that works: 100.25MiB");
  }
  EXPECT_EQ(line.used(), 60 * MiB);
  EXPECT_NO_THROW(line.reserve(Tag::Activations, 40 * MiB).release());
}

TEST(MemoryLine, RefusesALineThatIsNone) {
  EXPECT_THROW(MemoryLine(0), Error);
  EXPECT_THROW(MemoryLine(-1), Error);
}

TEST(MemoryLine, UnlimitedOneStillCounts) {
  MemoryLine line;
  const Reservation much = line.reserve(Tag::Eager, MemoryLine::kUnlimited - 1);
  EXPECT_EQ(line.free(), 1);
  EXPECT_THROW(line.reserve(Tag::Eager, 2).release(), Error);
}

TEST(Reservation, MovesItsBytes) {
  MemoryLine line(10 * MiB);
  Reservation a = line.reserve(Tag::Data, MiB);
  Reservation b = std::move(a);
  EXPECT_EQ(line.used(), MiB);
  EXPECT_EQ(b.bytes(), MiB);
  Reservation c = line.reserve(Tag::Staging, 2 * MiB);
  c = std::move(b);
  EXPECT_EQ(c.tag(), Tag::Data);
  EXPECT_EQ(line.used(), MiB);
  EXPECT_EQ(line.used(Tag::Staging), 0);
  c.release();
  c.release();
  EXPECT_EQ(line.used(), 0);
}

TEST(Reservation, ResizesOrStaysAsItWas) {
  MemoryLine line(10 * MiB);
  Reservation held = line.reserve(Tag::Data, MiB);
  held.resize(10 * MiB);
  EXPECT_EQ(line.free(), 0);
  held.resize(2 * MiB);
  EXPECT_EQ(line.used(Tag::Data), 2 * MiB);
  EXPECT_THROW(held.resize(11 * MiB), Error);
  EXPECT_EQ(held.bytes(), 2 * MiB);
  EXPECT_EQ(line.used(), 2 * MiB);
}

TEST(MemoryLine, ThreadsNeverPassItTogether) {
  constexpr Bytes kPiece = 1000;
  MemoryLine line(3 * kPiece);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&line, i] {
      for (int round = 0; round < 2000; ++round) try {
          const Reservation held = line.reserve(Tag(i), kPiece);
          EXPECT_LE(line.used(), line.limit());
        } catch (const Error&) {
        }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(line.used(), 0);
  EXPECT_LE(line.peak(), line.limit());
}

TEST(MemoryLine, MayGoBeforeWhatIsHeldAgainstIt) {
  Reservation held;
  {
    MemoryLine line(MiB);
    held = line.reserve(Tag::Data, 1);
  }
  held.resize(2);
  EXPECT_EQ(held.bytes(), 2);
  held.release();
}

TEST(MemoryLine, RefusesWithNumbers) {
  MemoryLine line(10 * MiB);
  const Reservation held = line.reserve(Tag::Data, 8 * MiB);
  try {
    const Reservation more = line.reserve(Tag::Staging, 3 * MiB);
    FAIL();
  } catch (const DoesNotFit& e) {
    EXPECT_EQ(e.refusal().line, 10 * MiB);
    EXPECT_EQ(e.refusal().need, 11 * MiB);
    EXPECT_EQ(e.refusal().deficit(), MiB);
    ASSERT_EQ(e.refusal().holders.size(), 1U);
    EXPECT_EQ(e.refusal().holders[0].tag, Tag::Data);
  }
}

TEST(MemoryLine, SharesHaveBooksOfTheirOwn) {
  MemoryLine line(10 * MiB);
  {
    MemoryLine share = line.share(Tag::Data, 4 * MiB);
    EXPECT_EQ(line.used(Tag::Data), 4 * MiB);
    const Reservation part = share.reserve(Tag::Data, 3 * MiB);
    EXPECT_EQ(line.used(), 4 * MiB);
    EXPECT_THROW(static_cast<void>(share.reserve(Tag::Data, 2 * MiB)), DoesNotFit);
  }
  EXPECT_EQ(line.used(), 0);
  EXPECT_THROW(line.share(Tag::Data, 11 * MiB), DoesNotFit);
}

TEST(MemoryLine, OfAProcessWithoutALimitIsNeverPassed) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  MemoryLine line = MemoryLine::process(MemoryLine::kUnlimited);
  const std::vector<char> grown(static_cast<size_t>(64 * MiB), 'x');
  line.expect_no_growth();
  EXPECT_GE(line.process_bytes(), std::ssize(grown));
}

TEST(MemoryLine, NamesAStackOnWhichKernelsHaveNoRoom) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_STACK, &before), 0);
  const rlimit low{rlim_t{512} * 1024, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_STACK, &low), 0);
  const auto named = ::testing::ThrowsMessage<Error>(::testing::HasSubstr("the stack is limited to 512 KiB"));
  EXPECT_THAT([] { MemoryLine line(MiB); }, named);
  EXPECT_THAT([] { MemoryLine::process(GiB); }, named);
  ASSERT_EQ(::setrlimit(RLIMIT_STACK, &before), 0);
  EXPECT_EQ(MemoryLine(MiB).limit(), MiB);
}

TEST(Tag, NamesEachOne) {
  EXPECT_EQ(name_of(Tag::Weights), "weights");
  EXPECT_EQ(name_of(Tag(kTagCount - 1)), "eager");
}

TEST(MemoryLine, AProcessHasOne) {
  std::optional<MemoryLine> first(std::in_place, MemoryLine::process(GiB));
  EXPECT_TRUE(MemoryLine::process("1GiB") == *first);
  EXPECT_THAT([] { MemoryLine::process(2 * GiB); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr(
                  "the process has a line of 1,073,741,824 bytes (1 GiB) already, and is asked for one of 2,147")));
  {
    const Reservation held = first->reserve(Tag::Data, MiB);  // keeps its line
    first.reset();
    EXPECT_THROW(MemoryLine::process(2 * GiB), Error);
  }
  EXPECT_EQ(MemoryLine::process(2 * GiB).limit(), 2 * GiB);
}

}  // namespace
}  // namespace plimsoll::memory
