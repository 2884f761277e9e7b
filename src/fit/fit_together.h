// A fit that replicas or ranks do together.
#pragma once

#include <plimsoll/forecast.h>
#include "fit/compiled.h"
#include "together/strategy.h"
#include "train/loop.h"

namespace plimsoll::fit {

// Callbacks run on the first replica or rank. Afterwards the weights are in the model's file, and no session is open.
History fit_together(Compiled& compiled, train::Spec call, const together::StrategyContents& strategy,
                     train::LoopOptions options, Callbacks callbacks);
// The forecast of the first replica, or of this rank.
Forecast plan_together(Compiled& compiled, train::Spec call, const together::StrategyContents& strategy);

}  // namespace plimsoll::fit
