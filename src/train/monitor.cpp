#include "train/monitor.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>

namespace plimsoll::train {
namespace {

constexpr std::string_view kHigherIsBetter[] = {"accuracy", "precision", "recall", "auc"};

}  // namespace

Monitor::Monitor(std::string name)
    : name_(std::move(name)), higher_is_better_(std::ranges::any_of(kHigherIsBetter, [&](std::string_view word) {
        return name_.find(word) != std::string::npos;
      })) {}

bool Monitor::improves(const FitRun& run) {
  const std::optional<double> now = run.log(name_);
  if (!now) {
    std::vector<std::string> names;
    for (const LogValue& log : run.logs()) names.push_back(log.name);
    throw Error(fmt::format("there is no '{}' to monitor; there are {}", name_, fmt::join(names, ", ")),
                ErrorKind::Usage);
  }
  const bool is_better = !best_ || (higher_is_better_ ? *now > *best_ : *now < *best_);
  if (is_better) best_ = now;
  return is_better;
}

std::string Monitor::state() const { return best_ ? fmt::format("{:a}", *best_) : ""; }

void Monitor::restore(const std::string& state) {
  best_.reset();
  if (!state.empty()) best_ = std::strtod(state.c_str(), nullptr);
}

}  // namespace plimsoll::train
