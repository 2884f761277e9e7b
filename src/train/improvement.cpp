#include "train/improvement.h"

#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>

namespace plimsoll::train {
namespace {

bool is_accuracy(std::string_view name) {
  for (const std::string_view word : {"accuracy", "precision", "recall", "auc", "top_"})
    if (name.find(word) != std::string_view::npos) return true;
  return false;
}

}  // namespace

Improvement::Improvement(std::string monitor, double min_delta, const std::string& mode)
    : monitor_(std::move(monitor)),
      min_delta_(std::abs(min_delta)),
      is_higher_better_(mode == "max" || (mode == "auto" && is_accuracy(monitor_))) {
  if (mode != "auto" && mode != "min" && mode != "max")
    throw Error(fmt::format("mode '{}' is unknown; known are auto, min and max", mode), ErrorKind::Usage);
}

std::optional<double> Improvement::read(const FitRun& run) {
  if (const auto value = run.log(monitor_)) return value;
  // Validation may come in a later epoch; a number of the training data that is missing now never comes.
  if (monitor_.starts_with("val_") && run.epoch() < run.epochs()) return std::nullopt;
  std::vector<std::string> known;
  for (const LogValue& log : run.logs()) known.push_back(log.name);
  throw Error(fmt::format("there is no '{}' to watch; this training has {}", monitor_, fmt::join(known, ", ")),
              ErrorKind::Usage);
}

bool Improvement::is_better(double value, double than) const {
  if (std::isnan(value)) return false;
  if (std::isnan(than)) return true;
  return is_higher_better_ ? value - min_delta_ > than : value + min_delta_ < than;
}

}  // namespace plimsoll::train
