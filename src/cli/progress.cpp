#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "cli/output.h"
#include "memory/process.h"
#include "report/training_report.h"

namespace plimsoll::cli {
namespace {

// Characters, of which some have several bytes.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

double number_of(const FitRun& run, std::string_view name) {
  return run.log(name).value_or(std::numeric_limits<double>::quiet_NaN());
}

std::string first_characters(const std::string& text, size_t most) {
  size_t bytes = 0;
  for (size_t seen = 0; bytes < text.size(); ++bytes)
    if ((text[bytes] & 0xc0) != 0x80 && ++seen > most) break;
  return text.substr(0, bytes);
}

}  // namespace

Progress::Form Progress::parse_form(const std::string& name, bool json) {
  if (name == "auto") return json ? Form::Json : isatty(STDERR_FILENO) != 0 ? Form::Bar : Form::Line;
  if (name == "bar") return Form::Bar;
  if (name == "line") return Form::Line;
  if (name == "json") return Form::Json;
  if (name == "none") return Form::None;
  throw Error(fmt::format("progress '{}' is unknown; known are auto, bar, line, json, none", name), ErrorKind::Usage);
}

Progress::Progress(Form form) : form_(form), started_(Clock::now()), printed_(started_) {}

void Progress::step(const FitRun& run) {
  samples_ += run.step_samples();
  ++steps_;
  if (form_ == Form::None) return;
  const auto now = Clock::now();
  const double since = std::chrono::duration<double>(now - printed_).count();
  if (since < (form_ == Form::Bar ? 0.2 : 5.0)) return;
  printed_ = now;
  const double seconds = std::chrono::duration<double>(now - started_).count();
  const int64_t left = (run.epochs() - run.epoch() + 1) * run.steps_per_epoch() - run.epoch_steps();
  const report::ProgressFacts facts{.epoch = run.epoch(),
                                    .epochs = run.epochs(),
                                    .step = run.epoch_steps(),
                                    .steps_per_epoch = run.steps_per_epoch(),
                                    .loss = number_of(run, "loss"),
                                    .accuracy = number_of(run, "accuracy"),
                                    .samples_per_s = static_cast<double>(samples_) / seconds,
                                    .seconds_left = seconds / static_cast<double>(steps_) * static_cast<double>(left),
                                    .resident_bytes = resident_bytes(),
                                    .line_bytes = run.line()};
  if (form_ == Form::Json) return print_now(stdout, report::progress_json(facts) + "\n");
  print(report::progress_texts(facts), false);
}

void Progress::epoch(const FitRun& run) {
  if (form_ == Form::None) return;
  const report::EpochFacts facts{.epoch = run.epoch(),
                                 .epochs = run.epochs(),
                                 .steps = run.epoch_steps(),
                                 .steps_per_epoch = run.steps_per_epoch(),
                                 .loss = number_of(run, "loss"),
                                 .accuracy = number_of(run, "accuracy"),
                                 .test_loss = number_of(run, "val_loss"),
                                 .test_accuracy = number_of(run, "val_accuracy"),
                                 .seconds = std::chrono::duration<double>(Clock::now() - started_).count(),
                                 .resident_bytes = resident_bytes(),
                                 .peak_resident_bytes = peak_resident_bytes(),
                                 .line_bytes = run.line()};
  if (form_ == Form::Json) return print_now(stdout, report::epoch_json(facts) + "\n");
  print(report::epoch_texts(facts), true);
}

void Progress::print(const std::vector<std::string>& versions, bool final) {
  if (form_ != Form::Bar) return print_now(stderr, versions.front() + "\n");
  // The last column stays empty: the cursor after it may already be on the next row.
  const size_t room = std::max<size_t>(columns_of(stderr), 2) - 1;
  std::string text = first_characters(versions.back(), room);
  for (const std::string& version : versions) {
    if (width_of(version) > room) continue;
    text = version;
    break;
  }
  // A shorter text is padded with spaces to overwrite the one before.
  const size_t width = width_of(text), before = std::min(width_, room);
  const std::string fill(before > width ? before - width : 0, ' ');
  print_now(stderr, fmt::format("\r{}{}{}", text, fill, final ? "\n" : ""));
  width_ = final ? 0 : width;
}

}  // namespace plimsoll::cli
