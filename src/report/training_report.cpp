#include "report/training_report.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/json.h"

namespace plimsoll::report {
namespace {

std::string clock_text(double seconds) {
  const int64_t whole = std::llround(seconds);
  return whole >= 3600 ? fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
                       : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string loss_text(double loss, double accuracy) {
  return fmt::format("loss {:.4f}", loss) +
         (std::isnan(accuracy) ? "" : fmt::format("  acc {:5.2f} %", 100 * accuracy));
}

std::string memory_text(Bytes resident, Bytes line) {
  return fmt::format("mem {}/{} MiB", (resident + MiB - 1) / MiB, line / MiB);
}

nlohmann::json number_or_null(double number) {
  return std::isnan(number) ? nlohmann::json(nullptr) : nlohmann::json(number);
}

std::string skipped_text(const SkippedFacts& skipped) {
  if (skipped.samples == 0) return "";
  return fmt::format("skipped {} samples that can't be read, the last: {}\n", skipped.samples, skipped.last);
}

}  // namespace

std::vector<std::string> progress_texts(const ProgressFacts& facts) {
  const std::string where =
      fmt::format("epoch {}/{}  step {}/{}", facts.epoch, facts.epochs, facts.step, facts.steps_per_epoch);
  const std::string short_where =
      fmt::format("{}/{} {}/{}", facts.epoch, facts.epochs, facts.step, facts.steps_per_epoch);
  const std::string learned = loss_text(facts.loss, facts.accuracy);
  const std::string speed = fmt::format("{:.{}f} samples/s", facts.samples_per_s, facts.samples_per_s < 20 ? 1 : 0);
  const std::string memory = memory_text(facts.resident_bytes, facts.line_bytes);
  const std::string time = clock_text(facts.seconds_left) + " left";
  return {fmt::format("{}  {}  {}  {}  {}", where, learned, speed, time, memory),
          fmt::format("{}  {}  {}  {}", where, learned, time, memory),
          fmt::format("{}  loss {:.4f}  {}  {}", where, facts.loss, time, memory),
          fmt::format("{}  loss {:.4f}  {}", short_where, facts.loss, time),
          fmt::format("{}  loss {:.4f}", short_where, facts.loss),
          fmt::format("{} {:.4g}", short_where, facts.loss),
          short_where};
}

std::string progress_json(const ProgressFacts& facts) {
  return nlohmann::json{{"event", "progress"},
                        {"epoch", facts.epoch},
                        {"step", facts.step},
                        {"loss", number_or_null(facts.loss)},
                        {"accuracy", number_or_null(facts.accuracy)},
                        {"samples_per_s", facts.samples_per_s},
                        {"seconds_left", facts.seconds_left},
                        {"resident_bytes", facts.resident_bytes},
                        {"line_bytes", facts.line_bytes}}
      .dump();
}

std::vector<std::string> epoch_texts(const EpochFacts& facts) {
  const std::string where = fmt::format("epoch {}/{}", facts.epoch, facts.epochs);
  const std::string short_where = fmt::format("{}/{}", facts.epoch, facts.epochs);
  const bool is_whole = facts.steps >= facts.steps_per_epoch;
  const std::string cut = is_whole ? "" : fmt::format("  {} of {} steps", facts.steps, facts.steps_per_epoch);
  const std::string learned = loss_text(facts.loss, facts.accuracy);
  const std::string memory =
      fmt::format("{}  {}", clock_text(facts.seconds), memory_text(facts.resident_bytes, facts.line_bytes));
  const bool is_tested = !std::isnan(facts.test_loss);
  const std::string test = is_tested ? "  ·  test " + loss_text(facts.test_loss, facts.test_accuracy) : "";
  const std::string short_test = is_tested ? fmt::format("  test {:.4f}", facts.test_loss) : "";
  return {fmt::format("{}{}  {}{}  ·  {}", where, cut, learned, test, memory),
          fmt::format("{}{}  {}{}", where, cut, learned, test),
          fmt::format("{}{}  loss {:.4f}{}", where, cut, facts.loss, test),
          fmt::format("{}  loss {:.4f}{}", where, facts.loss, short_test),
          fmt::format("{}  {:.4f}{}", short_where, facts.loss, short_test),
          fmt::format("{}  {:.4f}", short_where, facts.loss)};
}

std::string epoch_json(const EpochFacts& facts) {
  return nlohmann::json{{"event", "epoch"},
                        {"epoch", facts.epoch},
                        {"steps", facts.steps},
                        {"loss", number_or_null(facts.loss)},
                        {"accuracy", number_or_null(facts.accuracy)},
                        {"test_loss", number_or_null(facts.test_loss)},
                        {"test_accuracy", number_or_null(facts.test_accuracy)},
                        {"seconds", facts.seconds},
                        {"peak_resident_bytes", facts.peak_resident_bytes},
                        {"line_bytes", facts.line_bytes}}
      .dump();
}

std::string start_text(const StartFacts& facts) {
  return fmt::format("weights from '{}': {} tensors, {}, {} steps done, rate {} ({})\n", facts.file, facts.tensors,
                     facts.state_tensors > 0 ? "optimiser state" : "no optimiser state", facts.steps,
                     facts.learning_rate, facts.learning_rate_origin);
}

std::string start_json(const StartFacts& facts) {
  return nlohmann::json{{"event", "weights"},
                        {"file", facts.file},
                        {"tensors", facts.tensors},
                        {"state_tensors", facts.state_tensors},
                        {"steps", facts.steps},
                        {"learning_rate", static_cast<double>(facts.learning_rate)},
                        {"learning_rate_origin", facts.learning_rate_origin}}
      .dump();
}

std::string resume_text(const ResumeFacts& facts) {
  if (facts.checkpoint.empty()) return "resumed without a checkpoint: there is none, so the run starts at step 0\n";
  return fmt::format("resumed from '{}': {} steps done, epoch {} after {} of its steps\n", facts.checkpoint,
                     facts.steps, facts.epoch, facts.epoch_steps);
}

std::string resume_json(const ResumeFacts& facts) {
  return nlohmann::json{{"event", "resume"},    {"checkpoint", facts.checkpoint},   {"steps", facts.steps},
                        {"epoch", facts.epoch}, {"epoch_steps", facts.epoch_steps}, {"damaged", facts.damaged}}
      .dump();
}

std::string end_text(const EndFacts& facts) {
  std::string text;
  if (!facts.stop_reason.empty()) text = fmt::format("stopped {}\n", facts.stop_reason);
  if (facts.test && !std::isnan(facts.test->accuracy))
    text += fmt::format("test    accuracy {:.2f} % on {} samples\n", 100 * facts.test->accuracy, facts.test->samples);
  text += skipped_text(facts.skipped);
  if (facts.exchanges) text += exchange_text(*facts.exchanges);
  return text + fmt::format("peak    planned {}\n        measured {} (VmHWM)\n        line {}\n",
                            format_exact_bytes(facts.planned_peak_bytes), format_exact_bytes(facts.measured_peak_bytes),
                            format_exact_bytes(facts.line_bytes));
}

std::string end_json(const EndFacts& facts) {
  nlohmann::json end{{"event", "end"},
                     {"finished", facts.is_finished},
                     {"loss", facts.loss},
                     {"skipped", facts.skipped.samples},
                     {"last_skipped", facts.skipped.last},
                     {"planned_peak_bytes", facts.planned_peak_bytes},
                     {"measured_peak_bytes", facts.measured_peak_bytes},
                     {"line_bytes", facts.line_bytes}};
  if (facts.exchanges) end["exchanges"] = exchange_json(*facts.exchanges);
  if (!facts.stop_reason.empty()) end["stop_reason"] = facts.stop_reason;
  if (facts.test) end["test_loss"] = facts.test->loss;
  if (facts.test && !std::isnan(facts.test->accuracy)) end["test_accuracy"] = facts.test->accuracy;
  return end.dump();
}

std::string evaluation_text(const ScoreFacts& score, Bytes measured_peak_bytes, Bytes line_bytes) {
  std::string text = fmt::format("loss    {:.4f} on {} samples\n", score.loss, score.samples);
  if (!std::isnan(score.accuracy)) text += fmt::format("correct {:.2f} %\n", 100 * score.accuracy);
  text += skipped_text(score.skipped);
  return text + fmt::format("peak    measured {} (VmHWM) of {}\n", format_bytes(measured_peak_bytes),
                            format_exact_bytes(line_bytes));
}

std::string evaluation_json(const ScoreFacts& score, const InputFacts& data, Bytes measured_peak_bytes,
                            Bytes line_bytes) {
  nlohmann::json result{{"event", "eval"},
                        {"version", 1},
                        {"samples", score.samples},
                        {"loss", score.loss},
                        {"skipped", score.skipped.samples},
                        {"last_skipped", score.skipped.last},
                        {"measured_peak_bytes", measured_peak_bytes},
                        {"line_bytes", line_bytes},
                        {"data", data_json(data)}};
  if (!std::isnan(score.accuracy)) result["accuracy"] = score.accuracy;
  return result.dump();
}

std::string prediction_text(int64_t samples, const std::string& file, Bytes measured_peak_bytes, Bytes line_bytes) {
  return fmt::format("wrote   {} samples{}\npeak    measured {} (VmHWM) of {}\n", samples,
                     file.empty() ? "" : fmt::format(" to '{}'", file), format_bytes(measured_peak_bytes),
                     format_exact_bytes(line_bytes));
}

std::string prediction_json(int64_t samples, const std::string& file, Bytes measured_peak_bytes, Bytes line_bytes) {
  return nlohmann::json{{"event", "predict"},
                        {"version", 1},
                        {"samples", samples},
                        {"file", file},
                        {"measured_peak_bytes", measured_peak_bytes},
                        {"line_bytes", line_bytes}}
      .dump();
}

}  // namespace plimsoll::report
