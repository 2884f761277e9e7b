// A fit that replicas or ranks do together.
#pragma once

#include <plimsoll/forecast.h>
#include "train/compiled.h"
#include "train/loop.h"
#include "train/strategy.h"

namespace plimsoll::train {

// Callbacks run on the first replica or rank. Afterwards the weights are in the model's file, and no session is open.
History fit_together(Compiled& compiled, SessionNeed need, const StrategyContents& strategy, LoopOptions options,
                     Callbacks callbacks);
// The forecast of the first replica, or of this rank.
Forecast plan_together(Compiled& compiled, SessionNeed need, const StrategyContents& strategy);

}  // namespace plimsoll::train
