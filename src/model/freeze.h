// The weights of a graph that are trained, and what is left out of a step for the others.
#pragma once

#include <plimsoll/model.h>
#include <plimsoll/optimiser.h>

namespace plimsoll::model {

// All weights that are not frozen. Throws Error(Usage) for a pattern that matches no variable and when all are frozen.
std::vector<Tensor> list_trained(Graph& graph, const Freeze& freeze);

// Leaves out the updates of statistics that are frozen.
void drop_frozen_statistics(const Graph& graph, const Freeze& freeze, Updates& updates);

}  // namespace plimsoll::model
