// The folder of one run: config, plan, metrics, event files and checkpoints, to be read later.
#pragma once

#include <string>

#include <plimsoll/callback.h>
#include "report/config_file.h"
#include "train/training.h"

namespace plimsoll::train {

// What the log files of a run take while it trains.
Bytes run_log_bytes();

// Throws the Error for which one of these callbacks, made by csv_log, json_log or event_files, stopped the training.
void expect_logs_written(const Callbacks& callbacks);

// What the files hold. To be made before the session opens, which frees the details of the plan.
struct RunTexts {
  RunTexts(const report::Config& of, const Training& training);
  std::string config, plan, plan_json;
};

class RunDirectory {
 public:
  // Makes nothing yet. Throws Error(Usage) for a folder that holds a run already, unless that one is resumed, or that
  // could not be made.
  RunDirectory(const std::string& path, bool resumes);

  // Makes the folder with config.json, plan.txt and plan.json, or writes these again. Throws Error.
  void create(const RunTexts& texts) const;
  // Callbacks that write metrics.csv, metrics.jsonl and events/; the latter also holds config and plan as texts.
  Callbacks logs(const RunTexts& texts, int64_t histogram_epochs) const;

  std::string checkpoints() const { return checkpoints_of(path_); }
  static std::string checkpoints_of(const std::string& path) { return path + "/checkpoints"; }

 private:
  std::string in(const char* name) const { return path_ + "/" + name; }

  const std::string path_;
};

}  // namespace plimsoll::train
