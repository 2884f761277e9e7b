// A model as one of several ranks trains it, with the exchanges of its layers as part of it.
#pragma once

#include <plimsoll/model.h>
#include "autodiff/sharding.h"
#include "model/synchronised_norms.h"

namespace plimsoll::model {

// The same model, over slices of its weights where ranks share them. Slices are named like the weights, and each weight
// is gathered right before it is used. Batch norms take the statistics of all ranks where that is asked for; `shared`
// then says whether there are any. `shared` records what is gathered while a graph is built, so the model must be built
// into one graph only.
ModelSpec make_rank_model(const ModelSpec& spec, autodiff::SharedTensors& shared, SynchronisedNorms norms);

}  // namespace plimsoll::model
