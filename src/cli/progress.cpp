#include "cli/progress.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "memory/process.h"

namespace plimsoll {
namespace {

std::string clock_text(double seconds) {
  const int64_t whole = std::llround(seconds);
  return whole >= 3600 ? fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
                       : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string accuracy_text(double accuracy) {
  return std::isnan(accuracy) ? "" : fmt::format("  acc {:5.2f} %", 100 * accuracy);
}

nlohmann::json number_or_null(double number) {
  return std::isnan(number) ? nlohmann::json(nullptr) : nlohmann::json(number);
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

Progress::Progress(Form form, int64_t epochs, int64_t steps_per_epoch, Bytes line)
    : form_(form),
      epochs_(epochs),
      steps_per_epoch_(steps_per_epoch),
      line_(line),
      started_(Clock::now()),
      printed_(started_) {}

void Progress::step(int64_t epoch, int64_t step, int64_t samples, double loss, double accuracy) {
  samples_ += samples;
  ++steps_;
  if (form_ == Form::None) return;
  const auto now = Clock::now();
  const double since = std::chrono::duration<double>(now - printed_).count();
  if (since < (form_ == Form::Bar ? 0.2 : 5.0)) return;
  printed_ = now;
  const double seconds = std::chrono::duration<double>(now - started_).count();
  const double rate = static_cast<double>(samples_) / seconds;
  const double left = seconds / static_cast<double>(steps_) * static_cast<double>(epochs_ * steps_per_epoch_ - steps_);
  const Bytes resident = resident_bytes();
  if (form_ == Form::Json) {
    fmt::print("{}\n", nlohmann::json{{"event", "progress"},
                                      {"epoch", epoch},
                                      {"step", step},
                                      {"loss", number_or_null(loss)},
                                      {"accuracy", number_or_null(accuracy)},
                                      {"samples_per_s", rate},
                                      {"seconds_left", left},
                                      {"resident_bytes", resident},
                                      {"line_bytes", line_}}
                           .dump());
    std::fflush(stdout);
    return;
  }
  print(fmt::format("epoch {}/{}  step {}/{}  loss {:.4f}{}  {:.{}f} samples/s  {} left  mem {}/{} MiB", epoch, epochs_,
                    step, steps_per_epoch_, loss, accuracy_text(accuracy), rate, rate < 20 ? 1 : 0, clock_text(left),
                    (resident + MiB - 1) / MiB, line_ / MiB),
        false);
}

void Progress::epoch(int64_t epoch, double loss, double accuracy, double test_loss, double test_accuracy) {
  if (form_ == Form::None) return;
  const double seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  if (form_ == Form::Json) {
    fmt::print("{}\n", nlohmann::json{{"event", "epoch"},
                                      {"epoch", epoch},
                                      {"loss", number_or_null(loss)},
                                      {"accuracy", number_or_null(accuracy)},
                                      {"test_loss", number_or_null(test_loss)},
                                      {"test_accuracy", number_or_null(test_accuracy)},
                                      {"seconds", seconds},
                                      {"peak_resident_bytes", peak_resident_bytes()},
                                      {"line_bytes", line_}}
                           .dump());
    std::fflush(stdout);
    return;
  }
  std::string text = fmt::format("epoch {}/{}  loss {:.4f}{}", epoch, epochs_, loss, accuracy_text(accuracy));
  if (!std::isnan(test_loss)) text += fmt::format("  ·  test loss {:.4f}{}", test_loss, accuracy_text(test_accuracy));
  text += fmt::format("  ·  {}  mem {}/{} MiB", clock_text(seconds), (resident_bytes() + MiB - 1) / MiB, line_ / MiB);
  print(text, true);
}

void Progress::print(const std::string& text, bool final) {
  // A shorter line than the one before is filled up, so that nothing of it stays.
  const std::string fill(width_ > text.size() ? width_ - text.size() : 0, ' ');
  if (form_ == Form::Bar)
    fmt::print(stderr, "\r{}{}{}", text, fill, final ? "\n" : "");
  else
    fmt::print(stderr, "{}\n", text);
  width_ = form_ == Form::Bar && !final ? text.size() : 0;
  std::fflush(stderr);
}

}  // namespace plimsoll
