// What a strategy says.
#pragma once

#include <plimsoll/strategy.h>
#include "train/spec.h"

namespace plimsoll {
namespace train {

enum class StrategyKind { Alone, Ranks, Mirrored, Pipeline };

}  // namespace train

struct Strategy::Contents {
  train::StrategyKind kind = train::StrategyKind::Alone;
  int replicas = 1;  // of a mirrored one
  StrategyOptions options = {};
  train::StageOptions stages = {};  // of a pipeline
};

namespace train {
using StrategyContents = Strategy::Contents;
}

}  // namespace plimsoll
