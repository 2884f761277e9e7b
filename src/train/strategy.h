// The contents of the public class Strategy.
#pragma once

#include <plimsoll/train.h>
#include "train/spec.h"

namespace plimsoll::train {

enum class StrategyKind { Alone, Ranks, Mirrored, Pipeline };

}  // namespace plimsoll::train

// Public headers name no namespace of a folder, so that a program's own `train` is not ambiguous.
struct plimsoll::Strategy::Contents {
  train::StrategyKind kind = train::StrategyKind::Alone;
  int replicas = 1;  // of a mirrored one
  StrategyOptions options = {};
  train::StageOptions stages = {};  // of a pipeline
};

namespace plimsoll::train {
using StrategyContents = Strategy::Contents;
}  // namespace plimsoll::train
