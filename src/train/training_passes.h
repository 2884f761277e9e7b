// The graph of a training: its passes, and what they exchange with other ranks.
#pragma once

#include "train/training.h"

namespace plimsoll::train {

inline bool trains(const Spec& spec) { return spec.purpose == Purpose::Train || spec.purpose == Purpose::Profile; }

// Into the graph of the training. Where ranks share weights or statistics, the model is built with the exchanges that
// this takes. Throws Error(Usage) for combinations that can't be.
model::TrainingGraph build_shared_passes(Training& training, const Spec& spec);

// What this rank holds of variables that ranks share.
session::VariableSlices list_slices(const Training& training);

}  // namespace plimsoll::train
