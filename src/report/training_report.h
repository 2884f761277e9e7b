// What training and evaluation report while they run and when they end, as text and as JSON lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <plimsoll/types.h>
#include "report/data.h"
#include "report/exchange_report.h"

namespace plimsoll::report {

// NaN stands for a number that was not measured: no accuracy, no test data.
struct ProgressFacts {
  int64_t epoch, epochs;
  int64_t step, steps_per_epoch;
  double loss, accuracy;
  double samples_per_s, seconds_left;
  Bytes resident_bytes, line_bytes;
};

struct EpochFacts {
  int64_t epoch, epochs;
  int64_t steps, steps_per_epoch;
  double loss, accuracy;
  double test_loss, test_accuracy;
  double seconds;  // since the start of training
  Bytes resident_bytes, peak_resident_bytes, line_bytes;
};

// One text in several lengths, the longest first, for terminals of any width.
std::vector<std::string> progress_texts(const ProgressFacts& facts);
std::string progress_json(const ProgressFacts& facts);
std::vector<std::string> epoch_texts(const EpochFacts& facts);
std::string epoch_json(const EpochFacts& facts);

// The weights that training starts from.
struct StartFacts {
  std::string file;
  int64_t tensors, state_tensors;
  int64_t steps;  // of training so far
  float learning_rate;
  std::string learning_rate_origin;
};
std::string start_text(const StartFacts& facts);
std::string start_json(const StartFacts& facts);

// The checkpoint that a run goes on from.
struct ResumeFacts {
  std::string checkpoint;  // empty: there is none, so the run starts from the beginning
  int64_t steps = 0;       // of training so far
  int64_t epoch = 1;       // under way
  int64_t epoch_steps = 0;
  std::vector<std::string> damaged = {};  // why newer ones were passed over
};
std::string resume_text(const ResumeFacts& facts);
std::string resume_json(const ResumeFacts& facts);

// Bad samples that were passed over, and what was wrong with the last of them.
struct SkippedFacts {
  int64_t samples = 0;
  std::string last = {};
};

struct ScoreFacts {
  double loss, accuracy;  // NaN: the model counts no right answers
  int64_t samples;
  SkippedFacts skipped = {};
};

struct EndFacts {
  bool is_finished;  // false: stopped
  double loss;       // of the last step
  std::optional<ScoreFacts> test;
  Bytes planned_peak_bytes, measured_peak_bytes, line_bytes;
  SkippedFacts skipped = {};                    // in all epochs
  std::string stop_reason = {};                 // of a callback; empty: none stopped it
  std::optional<ExchangeFacts> exchanges = {};  // with other ranks
};
std::string end_text(const EndFacts& facts);
std::string end_json(const EndFacts& facts);

std::string evaluation_text(const ScoreFacts& score, Bytes measured_peak_bytes, Bytes line_bytes);
std::string evaluation_json(const ScoreFacts& score, const InputFacts& data, Bytes measured_peak_bytes,
                            Bytes line_bytes);

// An empty file: standard output.
std::string prediction_text(int64_t samples, const std::string& file, Bytes measured_peak_bytes, Bytes line_bytes);
std::string prediction_json(int64_t samples, const std::string& file, Bytes measured_peak_bytes, Bytes line_bytes);

}  // namespace plimsoll::report
