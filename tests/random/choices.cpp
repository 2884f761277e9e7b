#include "random/choices.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "attack/effort.h"
#include "base/random.h"
#include "support/sanitizer.h"

namespace plimsoll::testing {
namespace {

constexpr size_t kMostNumbers = 8192, kMostText = 32768;

// Text that outlives a crash of the process which writes it.
struct SharedText {
  char text[kMostText];
  size_t length;

  void add(const std::string& more) {
    const size_t room = std::min(more.size(), kMostText - length);
    std::memcpy(text + length, more.data(), room);
    length += room;
  }
  std::string str() const { return {text, length}; }
};

}  // namespace

struct CaseRecord {
  uint64_t numbers[kMostNumbers];
  size_t count;
  struct Range {
    size_t begin, end;
  } parts[kMostNumbers];
  size_t part_count;
  SharedText notes, counts, law, how;
  bool broken, ended;
};

uint64_t Choices::below(uint64_t bound) {
  const size_t at = record_.count;
  if (at >= kMostNumbers) throw Violation("the generator of cases ends", "it drew too many numbers");
  const uint64_t drawn = repeats_ ? (at < given_.size() ? given_[at] : 0) : mix_bits(seed_, at);
  const uint64_t number = repeats_ ? std::min(drawn, bound - 1) : drawn % bound;
  record_.numbers[record_.count++] = number;
  return number;
}

Choices::Part::Part(Choices& choices) : choices_(choices), begin_(choices.record_.count) {}
Choices::Part::~Part() {
  CaseRecord& record = choices_.record_;
  if (record.part_count < kMostNumbers) record.parts[record.part_count++] = {begin_, record.count};
}

void Choices::note(const std::string& line) { record_.notes.add(line + "\n"); }
void Choices::count(const std::string& what) { record_.counts.add(what + "\n"); }

namespace {

using Numbers = std::vector<uint64_t>;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// What is known of a case that has run.
struct CaseRun {
  Numbers numbers;
  std::vector<CaseRecord::Range> parts;
  std::string notes, counts, law, how;
  bool broken = false;
};

bool is_simpler(const Numbers& a, const Numbers& b) { return a.size() != b.size() ? a.size() < b.size() : a < b; }

class Runner {
 public:
  Runner(unsigned seconds, void (*holds)(Choices&)) : seconds_(seconds), holds_(holds) {
    void* const memory = ::mmap(nullptr, sizeof(CaseRecord), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no memory for the record of a case");
    record_ = static_cast<CaseRecord*>(memory);
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  ~Runner() { ::munmap(record_, sizeof(CaseRecord)); }

  CaseRun run(uint64_t seed) {
    return run_case([&] { return Choices(*record_, seed); });
  }
  CaseRun run(const Numbers& numbers) {
    return run_case([&] { return Choices(*record_, numbers); });
  }

 private:
  template <class Make>
  CaseRun run_case(const Make& make) {
    CaseRecord& r = *record_;
    r.count = r.part_count = 0;
    r.notes.length = r.counts.length = r.law.length = r.how.length = 0;
    r.broken = r.ended = false;
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error("no process for a case");
    if (child == 0) {
      const rlimit none{0, 0};
      ::setrlimit(RLIMIT_CORE, &none);
      ::alarm(seconds_);
      Choices choices = make();
      answer(choices);
      std::fflush(nullptr);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CaseRun run{{r.numbers, r.numbers + r.count},
                {r.parts, r.parts + r.part_count},
                r.notes.str(),
                r.counts.str(),
                r.law.str(),
                r.how.str(),
                r.broken};
    if (r.ended) return run;
    run.broken = true;
    run.law = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "a case ends in time" : "nothing crashes";
    run.how = WIFSIGNALED(status) ? fmt::format("signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)))
                                  : fmt::format("the process left with {}", WEXITSTATUS(status));
    return run;
  }

  void answer(Choices& choices) {
    CaseRecord& r = *record_;
    const auto note_broken = [&](const std::string& law, const std::string& how) {
      r.broken = true;
      r.law.add(law);
      r.how.add(how);
    };
    try {
      holds_(choices);
    } catch (const Violation& v) {
      note_broken(v.law, v.what());
    } catch (const std::exception& e) {
      note_broken("nothing is thrown", e.what());
    }
    r.ended = true;
  }

  const unsigned seconds_;
  void (*const holds_)(Choices&);
  CaseRecord* record_;
};

// Leaves numbers out and makes them smaller for as long as the same law is broken.
class Shrinker {
 public:
  Shrinker(Runner& runner, CaseRun first, double seconds)
      : runner_(runner), best_(std::move(first)), seconds_(seconds), start_(Clock::now()) {}

  const CaseRun& shrink() {
    while (replace_parts(0) || replace_parts(1) || zero_numbers() || lower_numbers() || leave_numbers_out()) {
    }
    return best_;
  }
  int tries() const { return tries_; }

 private:
  bool accepts(const Numbers& numbers) {
    if (seconds_since(start_) > seconds_) return false;
    ++tries_;
    CaseRun run = runner_.run(numbers);
    if (!run.broken || run.law != best_.law || !is_simpler(run.numbers, best_.numbers)) return false;
    best_ = std::move(run);
    return true;
  }

  bool accepts_without(size_t begin, size_t end, size_t zeros) {
    Numbers numbers = best_.numbers;
    numbers.erase(numbers.begin() + static_cast<int64_t>(begin), numbers.begin() + static_cast<int64_t>(end));
    numbers.insert(numbers.begin() + static_cast<int64_t>(begin), zeros, 0);
    return accepts(numbers);
  }

  // Leaves parts out, or puts one zero in their place: the answer "no" to what was drawn there.
  bool replace_parts(size_t zeros) {
    bool is_better = false;
    for (size_t i = 0; i < best_.parts.size();) {
      // The largest first.
      std::ranges::sort(best_.parts, std::greater<>(), [](const auto& part) { return part.end - part.begin; });
      const CaseRecord::Range part = best_.parts[i];
      const bool is_done = part.end - part.begin <= zeros && (zeros == 0 || best_.numbers[part.begin] == 0);
      if (!is_done && accepts_without(part.begin, part.end, zeros))
        is_better = true;
      else
        ++i;
    }
    return is_better;
  }

  bool zero_numbers() {
    bool is_better = false;
    for (size_t i = 0; i < best_.numbers.size(); ++i)
      if (best_.numbers[i] > 0) is_better |= accepts_number(i, 0);
    return is_better;
  }

  bool accepts_number(size_t i, uint64_t number) {
    Numbers numbers = best_.numbers;
    numbers[i] = number;
    return accepts(numbers);
  }

  bool leave_numbers_out() {
    bool is_better = false;
    for (const size_t length : {8, 4, 2, 1})
      for (size_t end = best_.numbers.size(); end >= length && end <= best_.numbers.size(); --end)
        is_better |= accepts_without(end - length, end, 0);
    return is_better;
  }

  bool lower_numbers() {
    bool is_better = false;
    for (size_t i = 0; i < best_.numbers.size(); ++i) {
      uint64_t least = 1;  // what is below it has been tried
      while (i < best_.numbers.size() && least < best_.numbers[i]) {
        const uint64_t middle = least + (best_.numbers[i] - least) / 2;
        if (accepts_number(i, middle))
          is_better = true;
        else
          least = middle + 1;
      }
    }
    return is_better;
  }

  Runner& runner_;
  CaseRun best_;
  const double seconds_;
  const Clock::time_point start_;
  int tries_ = 0;
};

std::string test_name() {
  const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  return fmt::format("{}.{}", test->test_suite_name(), test->name());
}

void report(const std::string& seed, const CaseRun& first, const CaseRun& smallest, int tries) {
  ADD_FAILURE() << "broken: " << first.law << "\n"
                << first.how << "\n"
                << fmt::format("PLIMSOLL_CASE={} --gtest_filter={}\n{}\n", seed, test_name(), first.notes)
                << fmt::format("the smallest of {} more:\n{}\nPLIMSOLL_CASE={} --gtest_filter={}\n", tries,
                               smallest.how, fmt::join(smallest.numbers, "."), test_name())
                << smallest.notes;
}

// The case that PLIMSOLL_CASE describes: a seed, or numbers with dots between them.
CaseRun run_asked(Runner& runner, const std::string& text) {
  if (text.find('.') == std::string::npos) return runner.run(std::stoull(text));
  Numbers numbers;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, '.');) numbers.push_back(std::stoull(word));
  return runner.run(numbers);
}

}  // namespace

void expect_law(const RandomLaw& law, void (*holds)(Choices&)) {
  Runner runner(law.seconds_a_case, holds);
  if (const char* const asked = std::getenv("PLIMSOLL_CASE")) {
    const CaseRun run = run_asked(runner, asked);
    fmt::print("{}{}", run.notes, run.counts);
    EXPECT_FALSE(run.broken) << run.law << "\n" << run.how;
    return;
  }
  // The short form has the same cases each time: a test run must not fail by chance.
  constexpr uint64_t kFirstSeed = 1;
  constexpr int kMostKinds = 5;
  const uint64_t first = attack_minutes() > 0 ? std::random_device()() * uint64_t{1'000'000} : kFirstSeed;
  std::map<std::string, int64_t> counts, broken;
  int64_t cases = 0;
  for (const Effort effort(kSanitized ? law.short_cases / 8 : law.short_cases, law.share); effort.goes_on(cases);
       ++cases) {
    const uint64_t seed = first + static_cast<uint64_t>(cases);
    CaseRun run = runner.run(seed);
    std::istringstream lines(run.counts);
    for (std::string line; std::getline(lines, line);) ++counts[line];
    if (!run.broken || ++broken[run.law] > 1) continue;
    Shrinker shrinker(runner, run, law.seconds_to_shrink);
    const CaseRun smallest = shrinker.shrink();
    report(std::to_string(seed), run, smallest, shrinker.tries());
    if (std::ssize(broken) >= kMostKinds) break;
  }
  fmt::print("{}: {} cases from seed {}\n", test_name(), cases, first);
  for (const auto& [what, times] : counts) fmt::print("  {} {}\n", times, what);
  for (const auto& [what, times] : broken) fmt::print("  {} broke: {}\n", times, what);
}

}  // namespace plimsoll::testing
