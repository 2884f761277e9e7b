// How long an attack lasts: seconds in a test run, minutes by ./test --attack MINUTES.
#pragma once

#include <chrono>
#include <cstdlib>

namespace plimsoll::testing {

// 0: the short form.
inline double attack_minutes() {
  const char* const text = std::getenv("PLIMSOLL_ATTACK_MINUTES");
  return text == nullptr ? 0 : std::strtod(text, nullptr);
}

// Counts rounds in the short form, and looks at the clock in the long one.
class Effort {
 public:
  // `share` of the minutes of the long form.
  Effort(int64_t short_rounds, double share)
      : rounds_(short_rounds), seconds_(60 * share * attack_minutes()), start_(std::chrono::steady_clock::now()) {}

  bool goes_on(int64_t round) const {
    if (seconds_ <= 0) return round < rounds_;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count() < seconds_;
  }

 private:
  int64_t rounds_;
  double seconds_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace plimsoll::testing
