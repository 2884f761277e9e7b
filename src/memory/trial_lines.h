// Lines of the process that are only planned with.
#pragma once

namespace plimsoll::memory {

// While it lives, MemoryLine::process gives this thread lines of any size beside the one line of the process: to find
// out what would fit.
class TrialLines {
 public:
  TrialLines() noexcept;
  ~TrialLines();
  TrialLines(const TrialLines&) = delete;
  TrialLines& operator=(const TrialLines&) = delete;

 private:
  bool before_;
};

}  // namespace plimsoll::memory
