// Whether a logged number is better than all before it.
#pragma once

#include <optional>
#include <string>

#include <plimsoll/callback.h>

namespace plimsoll::train {

class Monitor {
 public:
  // By its name: higher is better for accuracy, precision, recall and auc, else lower.
  explicit Monitor(std::string name);

  // Remembers the number when it is the best so far. Throws Error(Usage) when the run logs no number of that name.
  bool improves(const FitRun& run);

  // The best number, exactly.
  std::string state() const;
  void restore(const std::string& state);

 private:
  std::string name_;
  bool higher_is_better_;
  std::optional<double> best_;
};

}  // namespace plimsoll::train
