// Whether a number that a training logs gets better.
#pragma once

#include <limits>
#include <optional>
#include <string>

namespace plimsoll::train {

class Improvement {
 public:
  // Mode min or max; auto: higher is better for accuracy, precision, recall, auc and top_..., else lower. Throws
  // Error(Usage).
  Improvement(std::string monitor, double min_delta, const std::string& mode);

  void reset() { best_ = std::numeric_limits<double>::quiet_NaN(); }
  bool is_better(double value) const { return is_better(value, best_); }
  bool is_better(double value, double than) const;  // NaN: anything is better
  void set_best(double value) { best_ = value; }
  double best() const { return best_; }
  const std::string& monitor() const { return monitor_; }

 private:
  std::string monitor_;
  double min_delta_;
  bool is_higher_better_;
  double best_ = std::numeric_limits<double>::quiet_NaN();  // NaN: none yet
};

}  // namespace plimsoll::train
