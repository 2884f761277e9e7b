// Random cases that repeat and shrink. A case is the list of numbers that its generator drew: the same numbers give the
// same case, fewer and smaller ones a simpler case. So one shrinker serves graphs, command lines and programs.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace plimsoll::testing {

struct CaseRecord;  // in memory that the parent of a case shares with it

// What a generator asks. 0 is always the simplest answer.
class Choices {
 public:
  Choices(CaseRecord& record, uint64_t seed) : record_(record), seed_(seed) {}
  // Repeats these numbers; zeros follow them.
  Choices(CaseRecord& record, std::vector<uint64_t> given)
      : record_(record), given_(std::move(given)), repeats_(true) {}

  uint64_t below(uint64_t bound);
  int64_t between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(below(static_cast<uint64_t>(most - least + 1)));
  }
  bool chance(int percent) { return below(100) >= static_cast<uint64_t>(100 - percent); }
  // The first is the simplest.
  template <class T>
  const T& pick(std::span<const T> items) {
    return items[below(items.size())];
  }
  template <class T>
  const T& pick(const std::vector<T>& items) {
    return pick(std::span<const T>(items));
  }
  template <class T>
  T pick(std::initializer_list<T> items) {
    return items.begin()[below(items.size())];
  }

  // Numbers drawn while it lives belong together: the shrinker leaves them out together.
  class Part {
   public:
    explicit Part(Choices& choices);
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;
    ~Part();

   private:
    Choices& choices_;
    size_t begin_;
  };

  void note(const std::string& line);   // of the case as people read it
  void count(const std::string& what);  // one more of these in the sum over all cases

 private:
  CaseRecord& record_;
  uint64_t seed_ = 0;
  std::vector<uint64_t> given_ = {};
  bool repeats_ = false;
};

// A law that does not hold: which one, the same words for each case, and how.
class Violation : public std::runtime_error {
 public:
  Violation(std::string broken, const std::string& how) : std::runtime_error(how), law(std::move(broken)) {}
  std::string law;
};

// Runs cases of random numbers, each in a child process, so that a crash or an endless loop is an answer too. A case
// that throws is made smaller while it breaks the same law, and is a failure of the test with both forms of it. Where
// PLIMSOLL_CASE holds the seed of a case or its numbers ("3.0.17"), that case alone runs.
struct RandomLaw {
  int64_t short_cases;       // in a test run
  double share;              // of the minutes of the long form
  unsigned seconds_a_case;   // after which it counts as endless
  double seconds_to_shrink;  // a case that breaks a law
};
void expect_law(const RandomLaw& law, void (*holds)(Choices&));

}  // namespace plimsoll::testing
