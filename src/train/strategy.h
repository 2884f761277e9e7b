// What a strategy says.
#pragma once

#include <plimsoll/strategy.h>
#include "train/spec.h"

namespace plimsoll::train {

enum class StrategyKind { Alone, Ranks, Mirrored, Pipeline };

struct StrategyContents {
  StrategyKind kind = StrategyKind::Alone;
  int replicas = 1;  // of a mirrored one
  StrategyOptions options = {};
  StageOptions stages = {};  // of a pipeline
};

}  // namespace plimsoll::train
