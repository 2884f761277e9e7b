// Plans a training for 1 to 1024 ranks that need not exist.
#pragma once

#include "report/scale_report.h"
#include "train/spec.h"

namespace plimsoll::forecast {

// The same training with so many ranks on a network of `spec.network`: it can be planned, not run. Throws Error(Usage)
// where the batch is smaller than the ranks.
train::Spec on_paper(const train::Spec& spec, int ranks);

// Rows for 1, 2, 4 ... 1024 ranks and those that were asked for. Where the batch does not divide, a row is that of the
// rank with the most samples. Each is planned without a line first, and below the line of the spec where that is too
// large.
report::ScaleFacts plan_scale(const train::Spec& spec, int ranks, const StopQuestion& is_stop_asked = never_stops);

}  // namespace plimsoll::forecast
