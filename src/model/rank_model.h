// A model as one of several ranks trains it: what its layers exchange with the others is part of it.
#pragma once

#include <plimsoll/model.h>
#include "autodiff/sharding.h"
#include "model/synchronised_norms.h"

namespace plimsoll::model {

// The same model over slices of its weights where ranks share them, named as the weights are: each is gathered right
// before it is used. Batch norms take the statistics of all ranks where that is asked for; `shared` says then whether
// there are any. `shared` learns what is gathered while a graph is built: the model is to be built into one graph.
ModelSpec make_rank_model(const ModelSpec& spec, autodiff::SharedTensors& shared, SynchronisedNorms norms);

}  // namespace plimsoll::model
