// A model whose weights are shared by ranks: each holds a slice, and gathers a weight right before it is used.
#pragma once

#include <plimsoll/model.h>
#include "autodiff/sharding.h"

namespace plimsoll::model {

// The same model over slices of its weights, named as the weights are. `shared` learns what is gathered while a graph
// is built: the model is to be built into one graph.
ModelSpec share_weights(const ModelSpec& spec, autodiff::SharedTensors& shared);

}  // namespace plimsoll::model
