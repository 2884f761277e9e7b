// A profile as a table and as JSON.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/json.h"
#include "report/profile.h"

namespace plimsoll::report {
namespace {

// "83 (46 %)" of the peak, or nothing where there is nothing to say.
std::string against_peak(double amount, double ns, double peak_per_s) {
  if (amount <= 0 || ns <= 0) return "";
  return fmt::format("{:.1f} ({:.0f} %)", amount / ns, 100 * amount / ns * 1e9 / peak_per_s);
}

std::string table(const Profile& profile, const std::vector<ProfileRow>& rows, std::string_view title) {
  std::string text = fmt::format("{:<36} {:>5} {:>10} {:>8} {:>8} {:>10} {:>15} {:>15}\n", title, "runs", "ms", "share",
                                 "pred.", "pred./meas", "GFLOP/s (peak)", "GB/s (peak)");
  for (const ProfileRow& row : rows) {
    const double share = row.ns / profile.step_ns;
    const double ratio = profile.predicted_over_measured(row);
    const std::string name = row.task.empty() ? row.name : fmt::format("{} {}", row.name, row.task);
    text += fmt::format("{:<36} {:>5} {:>10.3f} {:>6.1f} % {:>6.1f} % {:>10.2f} {:>15} {:>15}\n", name, row.runs,
                        row.ns / 1e6, 100 * share, 100 * share * ratio, ratio,
                        against_peak(row.flops, row.ns, profile.peak.flops_per_s),
                        against_peak(row.bytes, row.ns, profile.peak.bytes_per_s));
  }
  return text;
}

nlohmann::json row_json(const Profile& profile, const ProfileRow& row) {
  nlohmann::json json{{"operator", row.name},
                      {"runs", row.runs},
                      {"ns", row.ns},
                      {"fastest_ns", row.fastest_ns},
                      {"share", row.ns / profile.step_ns},
                      {"predicted_ns", row.predicted_ns},
                      {"predicted_over_measured", profile.predicted_over_measured(row)},
                      {"flops", row.flops},
                      {"bytes", row.bytes}};
  if (row.ns > 0) {
    json["share_of_peak_flops"] = row.flops / row.ns * 1e9 / profile.peak.flops_per_s;
    json["share_of_peak_bandwidth"] = row.bytes / row.ns * 1e9 / profile.peak.bytes_per_s;
  }
  if (!row.task.empty()) json["task"] = row.task;
  return json;
}

}  // namespace

std::string profile_text(const Profile& profile) {
  std::string text =
      fmt::format("{} · batch {} · step {:.1f} ms (median of {}, {:.1f} to {:.1f}) · {:.1f} samples/s\n", profile.model,
                  profile.batch, profile.step_ns / 1e6, profile.runs, profile.fastest_step_ns / 1e6,
                  profile.slowest_step_ns / 1e6, static_cast<double>(profile.batch) / profile.step_ns * 1e9);
  text += fmt::format("peak of this machine {:.0f} GFLOP/s, {:.1f} GB/s · predicted with it {:.1f} ms ({:.2f} x)\n",
                      profile.peak.flops_per_s / 1e9, profile.peak.bytes_per_s / 1e9, profile.predicted_here_ns / 1e6,
                      profile.predicted_here_ns / profile.step_ns);
  text += fmt::format("process planned {} · measured {} ({:.1f} %)\n\n", format_bytes(profile.planned_bytes),
                      format_bytes(profile.measured_bytes),
                      100 * static_cast<double>(profile.measured_bytes) / static_cast<double>(profile.planned_bytes));
  if (profile.exchanges) text.insert(text.size() - 1, exchange_text(*profile.exchanges));
  text += table(profile, profile.operators, "operator");
  if (!profile.longest.empty()) text += "\n" + table(profile, profile.longest, "task");
  if (!profile.data.stages.empty()) text += data_profile_text(profile.data);
  return text;
}

std::string profile_json(const Profile& profile, int indent) {
  nlohmann::json operators = nlohmann::json::array();
  for (const ProfileRow& row : profile.operators) operators.push_back(row_json(profile, row));
  nlohmann::json json{{"event", "profile"},
                      {"version", 2},
                      {"model", profile.model},
                      {"batch", profile.batch},
                      {"line_bytes", profile.line_bytes},
                      {"runs", profile.runs},
                      {"step_ns", profile.step_ns},
                      {"fastest_step_ns", profile.fastest_step_ns},
                      {"slowest_step_ns", profile.slowest_step_ns},
                      {"predicted_step_ns", profile.predicted_ns},
                      {"predicted_here_ns", profile.predicted_here_ns},
                      {"peak_flops_per_s", profile.peak.flops_per_s},
                      {"peak_bytes_per_s", profile.peak.bytes_per_s},
                      {"planned_peak_bytes", profile.planned_bytes},
                      {"measured_peak_bytes", profile.measured_bytes},
                      {"operators", operators}};
  if (!profile.longest.empty()) {
    json["tasks"] = nlohmann::json::array();
    for (const ProfileRow& row : profile.longest) json["tasks"].push_back(row_json(profile, row));
  }
  if (profile.exchanges) json["exchanges"] = exchange_json(*profile.exchanges);
  if (!profile.data.stages.empty()) json["data"] = data_profile_json(profile.data);
  return json.dump(indent);
}

}  // namespace plimsoll::report
