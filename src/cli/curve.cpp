// plimsoll plan --curve: the whole trade, memory against time, before the first step.
#include "plan/curve.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/plan_report.h"
#include "cli/verbs.h"

namespace plimsoll::cli {
namespace {

constexpr int kPoints = 20;
constexpr int kPlotWidth = 40;

std::string what_was_done(const plan::CurvePoint& point) {
  std::string text;
  if (point.parts > 1) text += fmt::format("{} parts ", point.parts);
  if (point.reruns > 0) text += fmt::format("{} tasks again ", point.reruns);
  if (point.variants > 0) text += fmt::format("{} with less scratch ", point.variants);
  if (point.saves > 0) text += fmt::format("{} spilled ", point.saves);
  if (text.empty()) return "nothing";
  text.pop_back();
  return text;
}

}  // namespace

int run_curve(const Settings& settings) {
  Settings open = settings;
  open.memory = "1000TiB";  // the curve is about all lines, so none is set
  const auto load = make_workload(open, Purpose::Train);
  stop_if_asked();
  const session::PlannedStep& step = load->session->steps().front();
  const std::vector<plan::Problem> problems = load->session->problems(Workload::Train);
  std::vector<const plan::Problem*> ways;
  for (const plan::Problem& problem : problems) ways.push_back(&problem);
  const std::vector<plan::CurvePoint> curve = make_curve(problems.front(), ways, step.limits, kPoints);
  stop_if_asked();
  const Bytes around = load->session->runtime_bytes() + load->data_bytes;
  const double fastest = curve.back().predicted_ns;
  if (settings.json) {
    nlohmann::json points = nlohmann::json::array();
    for (const plan::CurvePoint& point : curve)
      points.push_back({{"line_bytes", point.limit_bytes + around},
                        {"peak_bytes", point.arena_bytes + around},
                        {"predicted_step_ns", point.predicted_ns},
                        {"slowdown", point.predicted_ns / fastest},
                        {"reruns", point.reruns},
                        {"variants", point.variants},
                        {"saves", point.saves},
                        {"parts", point.parts}});
    fmt::print(
        "{}\n",
        nlohmann::json{{"event", "curve"}, {"version", 1}, {"model", load->spec.name()}, {"points", points}}.dump(2));
    return 0;
  }
  const double slowest = curve.front().predicted_ns;
  fmt::print("{} · batch {} · {} around the arena in every line\n", load->spec.name(), load->batch,
             format_bytes(around));
  fmt::print("{:>11} {:>9}  {:<{}} {}\n", "line", "time", "", kPlotWidth, "done to fit");
  for (const plan::CurvePoint& point : curve) {
    const double share = slowest > fastest ? (point.predicted_ns - fastest) / (slowest - fastest) : 0;
    const std::string bar(static_cast<size_t>(1 + share * (kPlotWidth - 1)), '#');
    fmt::print("{:>11} {:>8.2f}x  {:<{}} {}\n", format_bytes(point.limit_bytes + around), point.predicted_ns / fastest,
               bar, kPlotWidth, what_was_done(point));
  }
  return 0;
}

}  // namespace plimsoll::cli
