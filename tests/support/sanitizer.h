// Whether a sanitizer is built in: its own memory and allocator make measurements of the process meaningless.
#pragma once

namespace plimsoll::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace plimsoll::testing

#define PLIMSOLL_SKIP_UNDER_SANITIZER() \
  if (::plimsoll::testing::kSanitized) GTEST_SKIP() << "measures memory, and a sanitizer takes its own"
