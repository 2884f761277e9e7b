#include "train/improvement.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "report/metrics_file.h"

namespace plimsoll::train {

Improvement::Improvement(std::string monitor, double min_delta, const std::string& mode)
    : monitor_(std::move(monitor)),
      min_delta_(std::abs(min_delta)),
      is_higher_better_(mode == "max" || (mode == "auto" && report::is_higher_better(monitor_))) {
  if (mode != "auto" && mode != "min" && mode != "max")
    throw Error(fmt::format("mode '{}' is unknown; known are auto, min and max", mode), ErrorKind::Usage);
}

bool Improvement::is_better(double value, double than) const {
  if (std::isnan(value)) return false;
  if (std::isnan(than)) return true;
  return is_higher_better_ ? value - min_delta_ > than : value + min_delta_ < than;
}

}  // namespace plimsoll::train
