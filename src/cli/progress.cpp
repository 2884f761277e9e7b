#include "cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <plimsoll/error.h>
#include "cli/output.h"
#include "memory/process.h"

namespace plimsoll::cli {
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

// Of the terminal; asked each time, since it may be resized.
size_t columns() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* told = std::getenv("COLUMNS");
  const int64_t number = told != nullptr ? std::atoll(told) : 0;
  return number > 0 ? static_cast<size_t>(number) : 80;
}

// Characters, of which some have several bytes.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
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
    print_now(stdout, nlohmann::json{{"event", "progress"},
                                     {"epoch", epoch},
                                     {"step", step},
                                     {"loss", number_or_null(loss)},
                                     {"accuracy", number_or_null(accuracy)},
                                     {"samples_per_s", rate},
                                     {"seconds_left", left},
                                     {"resident_bytes", resident},
                                     {"line_bytes", line_}}
                              .dump() +
                          "\n");
    return;
  }
  const std::string where = fmt::format("epoch {}/{}  step {}/{}", epoch, epochs_, step, steps_per_epoch_);
  const std::string short_where = fmt::format("{}/{} {}/{}", epoch, epochs_, step, steps_per_epoch_);
  const std::string learned = fmt::format("loss {:.4f}{}", loss, accuracy_text(accuracy));
  const std::string speed = fmt::format("{:.{}f} samples/s", rate, rate < 20 ? 1 : 0);
  const std::string memory = fmt::format("mem {}/{} MiB", (resident + MiB - 1) / MiB, line_ / MiB);
  const std::string time = clock_text(left) + " left";
  print({fmt::format("{}  {}  {}  {}  {}", where, learned, speed, time, memory),
         fmt::format("{}  {}  {}  {}", where, learned, time, memory),
         fmt::format("{}  loss {:.4f}  {}  {}", where, loss, time, memory),
         fmt::format("{}  loss {:.4f}  {}", short_where, loss, time), fmt::format("{}  loss {:.4f}", short_where, loss),
         fmt::format("{} {:.4g}", short_where, loss), short_where},
        false);
}

void Progress::epoch(int64_t epoch, int64_t steps, double loss, double accuracy, double test_loss,
                     double test_accuracy) {
  if (form_ == Form::None) return;
  const double seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  if (form_ == Form::Json) {
    print_now(stdout, nlohmann::json{{"event", "epoch"},
                                     {"epoch", epoch},
                                     {"steps", steps},
                                     {"loss", number_or_null(loss)},
                                     {"accuracy", number_or_null(accuracy)},
                                     {"test_loss", number_or_null(test_loss)},
                                     {"test_accuracy", number_or_null(test_accuracy)},
                                     {"seconds", seconds},
                                     {"peak_resident_bytes", peak_resident_bytes()},
                                     {"line_bytes", line_}}
                              .dump() +
                          "\n");
    return;
  }
  const bool is_whole = steps >= steps_per_epoch_;
  const std::string cut = is_whole ? "" : fmt::format("  {} of {} steps", steps, steps_per_epoch_);
  const std::string where = fmt::format("epoch {}/{}", epoch, epochs_);
  const std::string learned = fmt::format("loss {:.4f}{}", loss, accuracy_text(accuracy));
  const std::string memory =
      fmt::format("{}  mem {}/{} MiB", clock_text(seconds), (resident_bytes() + MiB - 1) / MiB, line_ / MiB);
  std::string test, short_test;
  if (!std::isnan(test_loss)) {
    test = fmt::format("  ·  test loss {:.4f}{}", test_loss, accuracy_text(test_accuracy));
    short_test = fmt::format("  test {:.4f}", test_loss);
  }
  print(
      {fmt::format("{}{}  {}{}  ·  {}", where, cut, learned, test, memory),
       fmt::format("{}{}  {}{}", where, cut, learned, test), fmt::format("{}{}  loss {:.4f}{}", where, cut, loss, test),
       fmt::format("{}  loss {:.4f}{}", where, loss, short_test),
       fmt::format("{}/{}  {:.4f}{}", epoch, epochs_, loss, short_test),
       fmt::format("{}/{}  {:.4f}", epoch, epochs_, loss)},
      true);
}

void Progress::print(const std::vector<std::string>& versions, bool final) {
  if (form_ != Form::Bar) return print_now(stderr, versions.front() + "\n");
  // The last column stays empty: a cursor behind it may already be on the next row.
  const size_t room = std::max<size_t>(columns(), 2) - 1;
  std::string text = first_characters(versions.back(), room);
  for (const std::string& version : versions) {
    if (width_of(version) > room) continue;
    text = version;
    break;
  }
  // A shorter text than the one before is filled up, so that nothing of it stays.
  const size_t width = width_of(text), before = std::min(width_, room);
  const std::string fill(before > width ? before - width : 0, ' ');
  print_now(stderr, fmt::format("\r{}{}{}", text, fill, final ? "\n" : ""));
  width_ = final ? 0 : width;
}

}  // namespace plimsoll::cli
