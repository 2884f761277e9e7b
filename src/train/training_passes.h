// The graph of a training: its passes, and what they exchange with other ranks.
#pragma once

#include "train/training.h"

namespace plimsoll::train {

inline bool trains(const Spec& spec) { return spec.purpose == Purpose::Train || spec.purpose == Purpose::Profile; }

// Builds the passes into the graph of the training. Where ranks share weights or statistics, the model gets the
// exchanges that this needs. Throws Error(Usage) for combinations that are not supported.
model::TrainingGraph build_shared_passes(Training& training);

// What this rank holds of variables that ranks share.
weights::VariableSlices list_slices(const Training& training);

}  // namespace plimsoll::train
