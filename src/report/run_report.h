// What the folder of a run holds, for people and for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/config_file.h"
#include "report/metrics_file.h"
#include "report/plan_report.h"

namespace plimsoll::report {

// Files of a run, in its folder.
constexpr const char* kConfigFile = "config.json";
constexpr const char* kPlanText = "plan.txt";
constexpr const char* kPlanJson = "plan.json";
constexpr const char* kMetricsCsv = "metrics.csv";
constexpr const char* kMetricsJson = "metrics.jsonl";
constexpr const char* kEvents = "events";
constexpr const char* kCheckpoints = "checkpoints";
constexpr const char* kBestWeights = "best.safetensors";
constexpr const char* kRunFiles[] = {kConfigFile, kPlanText, kPlanJson, kMetricsCsv, kMetricsJson, kBestWeights};
constexpr const char* kRunFolders[] = {kEvents, kCheckpoints};

bool is_run_directory(const std::string& path);

struct RunFacts {
  std::string path;
  Config config = {};
  std::string plan_text = {}, plan_json = {};  // as they were written; empty: not there
  int64_t epochs = 0;
  std::vector<MetricsRow> first = {}, last = {};  // the rows to show: all, or some of both ends
  std::string best_by = {};                       // the number that makes the best epoch
  std::optional<MetricsRow> best = {};
  std::string best_weights = {};              // the file with the weights of the best epoch; empty: not kept
  std::vector<std::string> checkpoints = {};  // in order of names
};

// The number that says which epoch of a run is the best: the one that --early-stopping watches, else val_loss; the loss
// where there is no validation data.
std::string best_number(const std::string& early_stopping, bool has_validation);

// Reads a run, at most so many rows of its metrics. Throws Error(BadData) that names the file and the place.
RunFacts read_run(const std::string& path, size_t most_rows);

std::string run_text(const RunFacts& facts, const std::string& see_all);
std::string run_json(const RunFacts& facts, int indent = kOneLine);

}  // namespace plimsoll::report
