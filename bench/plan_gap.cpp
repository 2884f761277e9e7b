// How far the planner is from the true optimum, over thousands of problems that are small enough to try everything.
#include <algorithm>
#include <cstdlib>
#include <variant>

#include <fmt/format.h>

#include "plan/exhaustive.h"
#include "plan/make_plan.h"

using namespace plimsoll;
using namespace plimsoll::plan;

namespace {

struct Gap {
  double sum = 0, worst = 0;
  int64_t count = 0, optimal = 0;

  void add(double found, double optimum) {
    const double gap = found / optimum - 1;
    sum += gap;
    worst = std::max(worst, gap);
    ++count;
    optimal += gap == 0 ? 1 : 0;
  }
  std::string text() const {
    const auto all = static_cast<double>(std::max<int64_t>(count, 1));
    return fmt::format("{:>6} {:>7.2f} % {:>7.1f} % {:>7.1f} %", count, 100 * sum / all, 100 * worst,
                       100 * static_cast<double>(optimal) / all);
  }
};

void measure(const char* name, const Levers& levers, int64_t problems) {
  Gap lines, times;
  for (int64_t seed = 0; seed < problems; ++seed) {
    const Problem problem = testing::small_problem(static_cast<uint64_t>(seed), 8, levers.in_place);
    const testing::Exhaustive optimum(problem, levers);
    Limits limits{.bytes = 0, .levers = levers};
    const Bytes need = std::get<Shortfall>(make_plan(problem, limits)).need_bytes;
    lines.add(static_cast<double>(need), static_cast<double>(optimum.smallest_line()));
    limits.bytes = std::numeric_limits<Bytes>::max();
    const Bytes plain = std::get<Plan>(make_plan(problem, limits)).arena_bytes;
    for (int i = 0; i < 4 && need < plain; ++i) {
      limits.bytes = need + (plain - need) * i / 4;
      times.add(std::get<Plan>(make_plan(problem, limits)).predicted_ns, optimum.least_ns(limits.bytes));
    }
  }
  fmt::print("{:<28} {}   {}\n", name, lines.text(), times.text());
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t problems = argc > 1 ? std::atoll(argv[1]) : 1000;
  fmt::print("{:<28} {:^36}   {:^36}\n", "", "smallest line", "time at four lines");
  fmt::print("{:<28} {:>6} {:>9} {:>9} {:>9}   {:>6} {:>9} {:>9} {:>9}\n", "levers", "count", "mean", "worst",
             "optimal", "count", "mean", "worst", "optimal");
  Levers none;
  none.order = none.in_place = none.recompute = false;
  for (const bool order : {false, true})
    for (const bool in_place : {false, true})
      for (const bool recompute : {false, true}) {
        Levers levers = none;
        levers.order = order;
        levers.in_place = in_place;
        levers.recompute = recompute;
        const std::string name =
            fmt::format("{}{}{}", order ? "order " : "", in_place ? "in-place " : "", recompute ? "recompute" : "");
        measure(name.empty() ? "none" : name.c_str(), levers, problems);
      }
}
