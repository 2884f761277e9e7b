// Learning-rate schedules with the formulas of Keras. A schedule is a pure function of the number of updates done, so a
// training that is resumed needs no state of it.
//
//   net.compile({.schedule = RateSchedule::cosine(0.1, 10'000, {.warmup_steps = 500})});
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

class RateSchedule {
 public:
  struct Cosine {
    double alpha = 0;          // the least rate, as a part of the highest
    int64_t warmup_steps = 0;  // before the decay: evenly from `warmup_from` to the rate
    double warmup_from = 0;
  };
  struct Restarts {
    double longer = 2;  // each period than the one before
    double lower = 1;   // each start
    double alpha = 0;
  };

  static RateSchedule constant(double rate);
  // rate x factor^(update / steps); staircase: of whole steps.
  static RateSchedule exponential(double rate, int64_t steps, double factor, bool staircase = false);
  static RateSchedule cosine(double rate, int64_t steps) { return cosine(rate, steps, Cosine()); }
  static RateSchedule cosine(double rate, int64_t steps, const Cosine& options);
  static RateSchedule cosine_restarts(double rate, int64_t first_steps) {
    return cosine_restarts(rate, first_steps, Restarts());
  }
  static RateSchedule cosine_restarts(double rate, int64_t first_steps, const Restarts& options);
  // values[i] up to and including update boundaries[i], then the last one.
  static RateSchedule piecewise(std::vector<int64_t> boundaries, std::vector<double> values);
  // From `rate` to `end`; cycle: again and again, each time over more steps.
  static RateSchedule polynomial(double rate, int64_t steps, double end = 1e-4, double power = 1, bool cycle = false);
  // "cosine:steps=1000,warmup=100,alpha=0.01" as on the command line, from `rate`. Throws Error(Usage).
  static RateSchedule parse(std::string_view text, double rate);

  // One's own.
  template <class Own>
  requires std::invocable<Own, int64_t> RateSchedule(Own own)
      : rate_(std::move(own)) {}  // NOLINT(google-explicit-constructor)

  // The rate of the update after so many.
  double operator()(int64_t updates_done) const { return rate_(updates_done); }

 private:
  std::function<double(int64_t updates_done)> rate_;
};

}  // namespace plimsoll
