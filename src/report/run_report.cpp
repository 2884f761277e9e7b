#include "report/run_report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <plimsoll/error.h>
#include "memory/file.h"

namespace plimsoll::report {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kLongestPlan = 16 * MiB;

std::string in_run(const std::string& run, const char* name) { return (fs::path(run) / name).string(); }

// Empty when it is not there.
std::string read_file(const std::string& path) {
  std::error_code failure;
  if (!fs::exists(path, failure)) return {};
  const memory::File file = memory::File::open(path);
  if (file.size() > kLongestPlan)
    throw Error(fmt::format("{}: has {}, more than any plan", path, format_bytes(file.size())), ErrorKind::BadData);
  std::string text(static_cast<size_t>(file.size()), '\0');
  text.resize(static_cast<size_t>(file.read_some(0, file.size(), text.data(), path)));
  return text;
}

double value_in(const MetricsRow& row, std::string_view name) {
  for (const MetricValue& metric : row.values)
    if (metric.name == name) return metric.value;
  return std::nan("");
}

std::string early_stopping_of(const Config& config) {
  const auto found = std::ranges::find(config, std::string("early-stopping"), &ConfigEntry::name);
  return found == config.end() || found->values.empty() ? "" : found->values[0];
}

bool has_validation(const MetricsRow& row) {
  return std::ranges::any_of(row.values, [](const MetricValue& metric) { return metric.name.starts_with("val_"); });
}

void note_best(const MetricsRow& row, RunFacts& facts) {
  const std::string by = best_number(early_stopping_of(facts.config), has_validation(row));
  const double value = value_in(row, by);
  if (std::isnan(value)) return;
  if (facts.best && facts.best_by == by) {
    const double best = value_in(*facts.best, by);
    if (is_higher_better(by) ? value <= best : value >= best) return;
  }
  facts.best_by = by;
  facts.best = row;
}

void read_metrics(const std::string& path, size_t most_rows, RunFacts& facts) {
  std::error_code failure;
  if (!fs::exists(path, failure)) return;
  const size_t half = most_rows - most_rows / 2;
  for_each_line(path, [&](std::string_view line, Bytes) {
    const MetricsRow row = parse_json_line(line, fmt::format("{}: line {}", path, facts.epochs + 1));
    ++facts.epochs;
    note_best(row, facts);
    (facts.first.size() < half ? facts.first : facts.last).push_back(row);
    if (facts.last.size() > most_rows / 2) facts.last.erase(facts.last.begin());
    return true;
  });
}

std::vector<std::string> list_folder(const std::string& path) {
  std::vector<std::string> names;
  std::error_code failure;
  for (fs::directory_iterator walk(path, failure); !failure && walk != fs::directory_iterator();
       walk.increment(failure))
    if (const std::string name = walk->path().filename().string(); !name.starts_with('.')) names.push_back(name);
  std::ranges::sort(names);
  return names;
}

// Columns of the table: what the rows have, but what is the same in all of them or said elsewhere.
std::vector<std::string> columns_of(const RunFacts& facts) {
  std::vector<std::string> columns;
  for (const auto* rows : {&facts.first, &facts.last})
    for (const MetricsRow& row : *rows)
      for (const MetricValue& metric : row.values)
        if (!metric.name.ends_with("_bytes") && std::ranges::find(columns, metric.name) == columns.end())
          columns.push_back(metric.name);
  return columns;
}

std::string cell(double value) { return std::isnan(value) ? "-" : fmt::format("{:.4g}", value); }

std::string table_row(const MetricsRow& row, const std::vector<std::string>& columns) {
  std::string text = fmt::format("  {:>5} {:>8}", row.epoch, row.step);
  for (const std::string& column : columns)
    text += fmt::format(" {:>{}}", cell(value_in(row, column)), std::max<size_t>(column.size(), 9));
  return text + "\n";
}

std::string table(const RunFacts& facts, const std::string& see_all) {
  const std::vector<std::string> columns = columns_of(facts);
  std::string text = fmt::format("  {:>5} {:>8}", "epoch", "step");
  for (const std::string& column : columns) text += fmt::format(" {:>{}}", column, std::max<size_t>(column.size(), 9));
  text += "\n";
  for (const MetricsRow& row : facts.first) text += table_row(row, columns);
  const int64_t hidden = facts.epochs - static_cast<int64_t>(facts.first.size() + facts.last.size());
  if (hidden > 0) text += fmt::format("  ... and {} more ({} shows them)\n", hidden, see_all);
  for (const MetricsRow& row : facts.last) text += table_row(row, columns);
  return text;
}

std::string config_text(const Config& config) {
  std::string text;
  for (const ConfigEntry& entry : config)
    text += fmt::format("  {:<14} {}\n", entry.name, fmt::join(entry.values, ","));
  return text;
}

}  // namespace

std::string best_number(const std::string& early_stopping, bool has_validation) {
  const size_t colon = early_stopping.find(':');
  if (colon != std::string::npos) return early_stopping.substr(0, colon);
  return has_validation ? "val_loss" : "loss";
}

bool is_run_directory(const std::string& path) {
  std::error_code failure;
  return fs::is_regular_file(in_run(path, kConfigFile), failure);
}

RunFacts read_run(const std::string& path, size_t most_rows) {
  if (!is_run_directory(path))
    throw Error(fmt::format("{}: holds no run: there is no {} in it", path, kConfigFile), ErrorKind::BadData);
  RunFacts facts{path};
  try {
    facts.config = read_config(in_run(path, kConfigFile));
  } catch (const Error& e) {
    throw Error(e.what(), ErrorKind::BadData);
  }
  facts.plan_text = read_file(in_run(path, kPlanText));
  facts.plan_json = read_file(in_run(path, kPlanJson));
  read_metrics(in_run(path, kMetricsJson), most_rows, facts);
  std::error_code failure;
  const std::string best = in_run(path, kBestWeights);
  if (fs::exists(best, failure)) facts.best_weights = best;
  facts.checkpoints = list_folder(in_run(path, kCheckpoints));
  return facts;
}

std::string run_text(const RunFacts& facts, const std::string& see_all) {
  std::string text = fmt::format("run     {}\n{}", facts.path, config_text(facts.config));
  text += facts.plan_text;
  if (!text.ends_with('\n')) text += '\n';
  text +=
      facts.epochs == 0 ? "epochs  none is over\n" : fmt::format("epochs  {}\n{}", facts.epochs, table(facts, see_all));
  if (facts.best)
    text += fmt::format(
        "best    epoch {}: {} {}; {}\n", facts.best->epoch, facts.best_by, cell(value_in(*facts.best, facts.best_by)),
        facts.best_weights.empty() ? "its weights were not kept" : "its weights are in " + facts.best_weights);
  if (facts.checkpoints.empty()) return text + "checkpoints  none\n";
  text += fmt::format("checkpoints in {}\n", in_run(facts.path, kCheckpoints));
  for (const std::string& name : facts.checkpoints) text += fmt::format("  {}\n", name);
  return text;
}

std::string run_json(const RunFacts& facts, int indent) {
  using Json = nlohmann::ordered_json;
  const auto row_json = [](const MetricsRow& row) { return Json::parse(to_json_line(row)); };
  Json rows = Json::array();
  for (const auto* some : {&facts.first, &facts.last})
    for (const MetricsRow& row : *some) rows.push_back(row_json(row));
  Json plan = Json::parse(facts.plan_json, nullptr, false);
  if (plan.is_discarded()) plan = nullptr;
  Json json{{"version", 1},
            {"run", facts.path},
            {"config", Json::parse(config_json(facts.config))},
            {"plan", std::move(plan)},
            {"epochs", facts.epochs},
            {"rows", std::move(rows)},
            {"best_by", facts.best_by},
            {"best", facts.best ? row_json(*facts.best) : Json()},
            {"best_weights", facts.best_weights.empty() ? Json() : Json(facts.best_weights)},
            {"checkpoints", facts.checkpoints}};
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace plimsoll::report
