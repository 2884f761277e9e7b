// An optimiser, with the schedule that was given as its rate.
#pragma once

#include <optional>
#include <string>

#include <plimsoll/callback.h>
#include <plimsoll/optimiser.h>

namespace plimsoll::python {

struct PyOptimiser {
  Optimiser optimiser;
  std::optional<RateSchedule> schedule;
  std::string name;
};

}  // namespace plimsoll::python
