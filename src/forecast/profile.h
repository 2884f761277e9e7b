// Measures where the time of a training step goes, on its data or, without any, on synthetic data.
#pragma once

#include "report/profile.h"
#include "train/training.h"

namespace plimsoll::forecast {

// Runs `spec.profile_steps` steps of a training that was made for Purpose::Profile, closes its session, and measures
// the machine in the memory that this gives back, so that the line holds here too.
report::Profile measure_profile(train::Training& training, int64_t steps, size_t most_tasks,
                                const StopQuestion& is_stop_asked = never_stops);

}  // namespace plimsoll::forecast
