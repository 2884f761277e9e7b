#include "report/scale_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace plimsoll::report {
namespace {

std::string ns_text(double ns) {
  if (ns >= 1e9) return fmt::format("{:.3g} s", ns / 1e9);
  return ns >= 1e6 ? fmt::format("{:.3g} ms", ns / 1e6) : fmt::format("{:.3g} us", ns / 1e3);
}

std::string why_none(const ScaleRow& row) { return row.samples == 0 ? "no sample" : row.fits ? "-" : "too large"; }

std::string row_text(const ScaleRow& row) {
  const auto step = [&](const std::optional<ScaleTime>& time) { return time ? ns_text(time->step_ns) : why_none(row); };
  const auto share = [](const std::optional<ScaleTime>& time) {
    return time ? fmt::format("{:.0f} %", 100 * time->efficiency) : "-";
  };
  const auto exposed = [](const std::optional<ScaleTime>& time) { return time ? ns_text(time->exposed_ns) : "-"; };
  const std::string weak = row.weak ? ns_text(row.weak->step_ns) : "-";
  return fmt::format("{:>7} {:>8} {:>12} {:>12} {:>10} {:>11} {:>14} {:>10} {:>11}\n", row.ranks,
                     row.samples > 0 ? fmt::format("{}", row.samples) : "-", format_bytes(row.rank_bytes),
                     step(row.strong), share(row.strong), exposed(row.strong), weak, share(row.weak),
                     exposed(row.weak));
}

std::string what_is_shared(Sharding part) {
  switch (part) {
    case Sharding::None:
      return "nothing is shared: every rank holds all";
    case Sharding::State:
      return "each rank holds a part of the optimiser's state";
    case Sharding::Gradients:
      return "each rank holds a part of the state and of the gradients";
    case Sharding::Weights:
      return "each rank holds a part of state, gradients and weights, and gathers a layer's weights for each use";
  }
  return "";
}

std::string end_text(const ScaleBlock& block) {
  if (block.stops_at == 0) return "        scales up to the last row\n";
  return fmt::format("        stops scaling at {} rank{}: twice as many shorten the step by less than a quarter\n",
                     block.stops_at, block.stops_at == 1 ? "" : "s");
}

nlohmann::json time_json(const ScaleTime& time) {
  return {{"step_ns", time.step_ns},
          {"not_hidden_ns", time.exposed_ns},
          {"sent_bytes", time.sent_bytes},
          {"efficiency", time.efficiency}};
}

}  // namespace

int64_t find_end_of_scaling(const std::vector<ScaleRow>& rows) {
  const ScaleRow* before = nullptr;
  for (const ScaleRow& row : rows) {
    if (!row.strong) continue;
    if (before != nullptr && row.strong->step_ns > 0.75 * before->strong->step_ns) return before->ranks;
    before = &row;
  }
  return 0;
}

std::string scale_text(const ScaleFacts& facts) {
  std::string text = fmt::format(
      "\nscale   on paper: {} each way; a rank is a machine like this one\n"
      "        strong: the batch of {} is shared by the ranks; efficiency against one rank with all of it\n"
      "        weak: {} sample{} for each rank, as with {} ranks; efficiency against one rank with as many\n",
      facts.network, facts.batch, facts.rank_samples, facts.rank_samples == 1 ? "" : "s", facts.ranks);
  for (const ScaleBlock& block : facts.blocks) {
    text += fmt::format("\n{:<9} {}\n{:>7} {:>8} {:>12} {:>12} {:>10} {:>11} {:>14} {:>10} {:>11}\n",
                        name_of(block.part), what_is_shared(block.part), "ranks", "samples", "bytes", "strong step",
                        "efficiency", "not hidden", "weak step", "efficiency", "not hidden");
    for (const ScaleRow& row : block.rows) text += row_text(row);
    text += end_text(block);
  }
  return text;
}

nlohmann::json scale_json(const ScaleFacts& facts) {
  nlohmann::json blocks = nlohmann::json::array();
  for (const ScaleBlock& block : facts.blocks) {
    nlohmann::json rows = nlohmann::json::array();
    for (const ScaleRow& row : block.rows) {
      rows.push_back(
          {{"ranks", row.ranks}, {"samples", row.samples}, {"rank_bytes", row.rank_bytes}, {"fits", row.fits}});
      if (row.strong) rows.back()["strong"] = time_json(*row.strong);
      if (row.weak) rows.back()["weak"] = time_json(*row.weak);
    }
    blocks.push_back({{"shard", std::string(name_of(block.part))}, {"stops_at", block.stops_at}, {"rows", rows}});
  }
  return {{"ranks", facts.ranks},
          {"batch", facts.batch},
          {"rank_samples", facts.rank_samples},
          {"line_bytes", facts.line_bytes},
          {"network", {{"bytes_per_s", facts.bytes_per_s}, {"message_ns", facts.message_ns}}},
          {"shardings", blocks}};
}

}  // namespace plimsoll::report
