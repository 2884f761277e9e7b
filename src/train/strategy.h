// What a strategy says.
#pragma once

#include <plimsoll/strategy.h>

namespace plimsoll::train {

enum class StrategyKind { Alone, Ranks, Mirrored };

struct StrategyContents {
  StrategyKind kind = StrategyKind::Alone;
  int replicas = 1;  // of a mirrored one
  StrategyOptions options = {};
};

}  // namespace plimsoll::train
