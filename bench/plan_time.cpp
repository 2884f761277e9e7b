// What planning costs for every built-in model, from no line to one that nothing fits, and how well the plans pack.
#include <algorithm>
#include <ctime>
#include <variant>

#include <fmt/format.h>

#include "plan/make_plan.h"
#include "plan/problem_files.h"
#include "plan/problems.h"

using namespace plimsoll;
using namespace plimsoll::plan;

namespace {

constexpr int kLines = 8;  // from the smallest that fits to what is free to use

struct Timing {
  double worst = 0, sum = 0;
  int count = 0;
};

std::variant<Plan, Shortfall> plan_timed(const Problem& problem, const Limits& limits, Timing& timing) {
  const std::clock_t start = std::clock();  // of the processor: the planner is one thread, others may be busy
  auto answer = make_plan(problem, limits);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  timing.worst = std::max(timing.worst, seconds);
  timing.sum += seconds;
  ++timing.count;
  return answer;
}

void measure(const std::string& name, const Problem& problem, Limits limits) {
  Timing fits, refused;
  const Plan plain = std::get<Plan>(plan_timed(problem, limits, fits));
  limits.bytes = 0;
  const Bytes need = std::get<Shortfall>(plan_timed(problem, limits, refused)).need_bytes;
  limits.bytes = need - 1;
  plan_timed(problem, limits, refused);
  double loss = 0;  // arena over the most bytes alive at once
  for (int i = 0; i < kLines; ++i) {
    limits.bytes = need + (plain.arena_bytes - need) * i / (kLines - 1);
    const Plan plan = std::get<Plan>(plan_timed(problem, limits, fits));
    const auto live = static_cast<double>(std::max<Bytes>(plan.live_bytes, 1));
    loss = std::max(loss, static_cast<double>(plan.arena_bytes) / live - 1);
  }
  fmt::print("{:<18} {:>6} {:>8.3f} {:>8.3f} {:>9.3f}   {:>10} {:>10} {:>8.3f} % {:>8.3f} %\n", name,
             problem.tasks.size(), fits.worst, fits.sum / fits.count, refused.worst, format_bytes(plain.arena_bytes),
             format_bytes(need),
             100 * (static_cast<double>(plain.arena_bytes) / static_cast<double>(plain.live_bytes) - 1), 100 * loss);
}

}  // namespace

int main() {
  fmt::print("{:<18} {:>6} {:>8} {:>8} {:>9}   {:>10} {:>10} {:>10} {:>10}\n", "", "", "worst", "mean", "refused", "",
             "smallest", "packing", "worst");
  fmt::print("{:<18} {:>6} {:>8} {:>8} {:>9}   {:>10} {:>10} {:>10} {:>10}\n", "model", "tasks", "s", "s", "s",
             "no line", "line", "loss", "loss");
  for (const std::string& name : testing::kept_problem_names()) {
    const testing::KeptProblem kept = testing::read_kept_problem(name);
    measure(name, kept.problem, kept.limits);
  }
  constexpr int kLayers = 5000;
  measure("chain of 5000", testing::training_chain(kLayers, 400, 40'000), {.batch = 1000});
}
