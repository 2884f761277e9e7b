#include <plimsoll/threads.h>

#include <omp.h>

#include <thread>

#include <gtest/gtest.h>

#include <plimsoll/error.h>

namespace plimsoll {
namespace {

TEST(SetThreads, BelongsToTheThreadThatCallsIt) {
  const int before = threads();
  set_threads(5);
  EXPECT_EQ(threads(), 5);
  EXPECT_EQ(::omp_get_max_threads(), 5) << "loops of operators and of oneDNN ask OpenMP";
  std::thread([] {
    set_threads(3);
    EXPECT_EQ(threads(), 3);
  }).join();
  EXPECT_EQ(threads(), 5);
  set_threads(before);
}

TEST(SetThreads, RefusesNone) {
  const int before = threads();
  for (const int none : {0, -1}) EXPECT_THROW(set_threads(none), Error);
  EXPECT_EQ(threads(), before);
}

}  // namespace
}  // namespace plimsoll
