// The contents of the public class Strategy.
#pragma once

#include <plimsoll/train.h>
#include "train/spec.h"

namespace plimsoll::together {

enum class StrategyKind { Alone, Ranks, Mirrored, Pipeline };

}  // namespace plimsoll::together

// Public headers name no namespace of a folder, so that a program's own `train` is not ambiguous.
struct plimsoll::Strategy::Contents {
  together::StrategyKind kind = together::StrategyKind::Alone;
  int replicas = 1;  // of a mirrored one
  StrategyOptions options = {};
  train::StageOptions stages = {};  // of a pipeline
};

namespace plimsoll::together {
using StrategyContents = Strategy::Contents;
}  // namespace plimsoll::together
