// Progress while training: a bar that redraws on a terminal, a line every few seconds elsewhere, or JSON lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <plimsoll/bytes.h>

namespace plimsoll::cli {

class Progress {
 public:
  enum class Form { Bar, Line, Json, None };
  // "auto" is Json with `json`, Bar on a terminal, Line elsewhere.
  static Form parse_form(const std::string& name, bool json);

  Progress(Form form, int64_t epochs, int64_t steps_per_epoch, Bytes line);

  // After each step; prints only now and then.
  void step(int64_t epoch, int64_t step, int64_t samples, double loss, double accuracy);
  // After an epoch of so many steps, always.
  void epoch(int64_t epoch, int64_t steps, double loss, double accuracy, double test_loss, double test_accuracy);

 private:
  // Versions of one text, the longest first: a bar takes the first that fits a row of the terminal.
  void print(const std::vector<std::string>& versions, bool final);
  using Clock = std::chrono::steady_clock;
  Form form_;
  int64_t epochs_, steps_per_epoch_;
  Bytes line_;
  Clock::time_point started_, printed_;
  int64_t samples_ = 0;
  int64_t steps_ = 0;
  size_t width_ = 0;
};

}  // namespace plimsoll::cli
