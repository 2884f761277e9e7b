// A fit that replicas or ranks do together.
#pragma once

#include <plimsoll/forecast.h>
#include <plimsoll/strategy.h>
#include "train/compiled.h"
#include "train/loop.h"
#include "train/strategy.h"

namespace plimsoll::train {

// Callbacks are those of the first. Afterwards the weights are in the model's file: its session was that of all.
History fit_together(Compiled& compiled, SessionNeed need, const StrategyContents& strategy, LoopOptions options,
                     Callbacks callbacks);
// What a plan of it would be, of the first replica or this rank.
Forecast plan_together(Compiled& compiled, SessionNeed need, const StrategyContents& strategy);

}  // namespace plimsoll::train
