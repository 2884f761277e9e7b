#include "report/curve.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace plimsoll::report {
namespace {

constexpr int kPlotWidth = 40;

std::string what_was_done(const plan::CurvePoint& point) {
  std::string text;
  if (point.micro_batches > 1) text += fmt::format("{} micro-batches ", point.micro_batches);
  if (point.reruns > 0) text += fmt::format("{} recomputed ", point.reruns);
  if (point.variants > 0) text += fmt::format("{} with less workspace ", point.variants);
  if (point.saves > 0) text += fmt::format("{} spilled ", point.saves);
  if (text.empty()) return "nothing";
  text.pop_back();
  return text;
}

}  // namespace

std::string curve_text(const Curve& curve) {
  std::string text = fmt::format("{} · batch {} · {} around the arena in every line\n", curve.model, curve.batch,
                                 format_bytes(curve.around_arena));
  text += fmt::format("{:>11} {:>9}  {:<{}} {}\n", "line", "time", "", kPlotWidth, "done to fit");
  if (curve.points.empty()) return text;
  const double fastest = curve.points.back().predicted_ns;
  const double slowest = curve.points.front().predicted_ns;
  for (const plan::CurvePoint& point : curve.points) {
    const double share = slowest > fastest ? (point.predicted_ns - fastest) / (slowest - fastest) : 0;
    const std::string bar(static_cast<size_t>(1 + share * (kPlotWidth - 1)), '#');
    text += fmt::format("{:>11} {:>8.2f}x  {:<{}} {}\n", format_bytes(point.limit_bytes + curve.around_arena),
                        point.predicted_ns / fastest, bar, kPlotWidth, what_was_done(point));
  }
  return text;
}

std::string curve_json(const Curve& curve, int indent) {
  nlohmann::json points = nlohmann::json::array();
  for (const plan::CurvePoint& point : curve.points)
    points.push_back({{"line_bytes", point.limit_bytes + curve.around_arena},
                      {"peak_bytes", point.arena_bytes + curve.around_arena},
                      {"predicted_step_ns", point.predicted_ns},
                      {"slowdown", point.predicted_ns / curve.points.back().predicted_ns},
                      {"reruns", point.reruns},
                      {"variants", point.variants},
                      {"saves", point.saves},
                      {"micro_batches", point.micro_batches}});
  return nlohmann::json{{"event", "curve"}, {"version", 1}, {"model", curve.model}, {"points", points}}.dump(indent);
}

}  // namespace plimsoll::report
