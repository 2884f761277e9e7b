// The folder of one run: config, plan, metrics, event files and checkpoints, to be read later.
#pragma once

#include <optional>
#include <string>

#include <plimsoll/callback.h>
#include <plimsoll/error.h>
#include "report/config_file.h"
#include "train/training.h"

namespace plimsoll::checkpoints {

// What the log files of a run take while it trains.
Bytes run_log_bytes();

// A callback that writes a file and stops the training in order when it can't, so that its weights are kept.
class FailingCallback : public Callback {
 public:
  const std::optional<Error>& failure() const { return failure_; }

 protected:
  std::optional<Error> failure_;  // why the file was given up
};

// Throws the Error for which one of these callbacks, made by csv_log, json_log, event_files or best_weights, stopped
// the training.
void expect_logs_written(const Callbacks& callbacks);

// Keeps the weights of the epoch with the best of these numbers in the folder of a run, as best.safetensors.
std::shared_ptr<Callback> best_weights(const std::string& folder, const std::string& monitor);

// What the files hold. To be made before the session opens, which frees the details of the plan.
struct RunTexts {
  RunTexts(const report::Config& of, const train::Training& training);
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

}  // namespace plimsoll::checkpoints
