// A training whose layers are shared by ranks: where this rank stands, and its steps.
#pragma once

#include <vector>

#include "train/training.h"

namespace plimsoll::train {

// Not set where there is no pipeline. Throws Error(Usage) for a number of ranks or micro-batches that can't be, and for
// what a pipeline can't be combined with.
model::StagePlace place_in_pipeline(const Spec& spec, int64_t batch);

// The steps of a stage: training first, then evaluation, also of a last batch of so many samples.
std::vector<session::Request> list_stage_requests(Training& training, int64_t last_batch);

// Whether each micro-batch begins, in the slot of its batch, where a step may read it; true without a pipeline.
bool micro_batches_lie_aligned(const Training& training);

}  // namespace plimsoll::train
