#include "memory/small_thread.h"

#include <csignal>

#include <gtest/gtest.h>

#include "support/sanitizer.h"

namespace plimsoll::memory {
namespace {

// The array is written from its far end on, as arrays of functions are.
int fill_stack(int depth) {  // NOLINT(misc-no-recursion)
  volatile char room[4096];
  for (int i = 4095; i >= 0; --i) room[i] = static_cast<char>(depth);
  return depth == 0 ? room[7] : fill_stack(depth - 1) + room[depth % 4096];
}

volatile int kept_sum = 0;  // so that no call is left out

void run_on_small_stack(int depth) {
  pthread_t thread;
  const auto run = [](void* given) -> void* {
    kept_sum = fill_stack(*static_cast<int*>(given));
    return nullptr;
  };
  ASSERT_EQ(start_small_thread(&thread, run, &depth, "a function of the input"), 0);
  ::pthread_join(thread, nullptr);
}

TEST(SmallThread, NamesWhatUsedUpItsStack) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  run_on_small_stack(150);
  EXPECT_EXIT(run_on_small_stack(100'000), ::testing::KilledBySignal(SIGSEGV),
              "a function of the input used up its stack of 1 MiB: keep large arrays in the heap");
}

TEST(SmallThread, LeavesOtherFaultsAsTheyAre) {
  PLIMSOLL_SKIP_UNDER_SANITIZER();
  const auto fault = [] {
    pthread_t thread;
    const auto run = [](void* given) -> void* {
      *static_cast<volatile int*>(given) = 1;
      return nullptr;
    };
    start_small_thread(&thread, run, reinterpret_cast<void*>(16), "a function of the input");
    ::pthread_join(thread, nullptr);
  };
  EXPECT_EXIT(fault(), ::testing::KilledBySignal(SIGSEGV), "^$");
}

}  // namespace
}  // namespace plimsoll::memory
