// Progress while training: a bar that redraws on a terminal, a line every few seconds elsewhere, or JSON lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <plimsoll/callback.h>

namespace plimsoll::cli {

class Progress {
 public:
  enum class Form { Bar, Line, Json, None };
  // "auto" is Json with `json`, Bar on a terminal, Line elsewhere.
  static Form parse_form(const std::string& name, bool json);

  explicit Progress(Form form);

  // After each step; prints only now and then.
  void step(const FitRun& run);
  // After an epoch, also one that was cut short; always prints.
  void epoch(const FitRun& run);

 private:
  // Versions of one text, the longest first: a bar takes the first that fits a row of the terminal.
  void print(const std::vector<std::string>& versions, bool final);
  using Clock = std::chrono::steady_clock;
  Form form_;
  Clock::time_point started_, printed_;
  int64_t samples_ = 0;
  int64_t steps_ = 0;
  size_t width_ = 0;
};

}  // namespace plimsoll::cli
