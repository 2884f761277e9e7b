// What a step will take before it runs: whether it fits the line, its peak, its price in time, and what helps if not.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <plimsoll/types.h>

namespace plimsoll {

// What one stage of a dataset holds and, after some of an iteration, has done.
struct StageReport {
  std::string name;  // "batch(32)"
  Bytes bytes = 0;
  int threads = 0;
  int64_t elements = 0;           // handed on
  int64_t busy_ns = 0;            // of all threads of the stage
  int64_t waiting_ns = 0;         // for another thread
  int64_t skipped = 0;            // bad elements passed over
  std::string last_skipped = {};  // what was wrong with the last of them
};

struct ForecastFacts;

// One way to make a step fit that does not. It was planned before it is named.
class Remedy {
 public:
  Remedy(std::string text, double slowdown, bool changes_results)
      : text_(std::move(text)), slowdown_(slowdown), changes_results_(changes_results) {}

  const std::string& text() const { return text_; }  // "batch 12: the largest batch found that fits"
  // Predicted time for a sample, in percent more than that of the requested step without a line: 15.1 is 15.1 % slower.
  double slowdown() const { return slowdown_; }
  // True for another batch or optimiser and for 16 bits. Micro-batches and a scratch file change no more than rounding.
  bool changes_results() const { return changes_results_; }

 private:
  std::string text_;
  double slowdown_;
  bool changes_results_;
};

// A value: copies are cheap and share what they know. Not fitting is an answer, not an exception.
class Forecast {
 public:
  explicit Forecast(std::shared_ptr<const ForecastFacts> facts) : facts_(std::move(facts)) {}

  bool fits() const;
  Bytes line() const;
  // The most that is held at once, planning included: of the whole process where the line covers it. When the step does
  // not fit, what it needs.
  Bytes peak() const;
  // The smallest line under which a plan was made; 0: it was not searched for.
  Bytes smallest_line() const;
  // Predicted time in percent more than that of the same step without a line. 0 when the step does not fit.
  double slowdown() const;
  // Whether results are those of the step without a line, to the last bit. False when the step does not fit.
  bool is_bit_identical() const;
  int64_t micro_batches() const;  // that the batch is cut into: 1 is the whole batch; 0 when the step does not fit
  // Empty when the step fits. Those that keep results first, then by price.
  const std::vector<Remedy>& remedies() const;

  std::string text() const;  // a paragraph for people
  std::string json() const;  // one JSON object on one line

 private:
  std::shared_ptr<const ForecastFacts> facts_;
};

}  // namespace plimsoll
