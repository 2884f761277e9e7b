// Batch norms whose statistics are those of the samples of all ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "model/rewrite.h"

namespace plimsoll::model {

// Which batch norms: those that ask for it (layers::BatchNorm::synchronised), or all.
enum class SynchronisedNorms { Named, All };

bool is_synchronised(const graph::Op& op, const graph::Attrs& settings, SynchronisedNorms which);

// Elements of the buffer that the exchanges of the widest batch norm need; 0: the pass has none.
int64_t norm_buffer(const TracedPass& pass, SynchronisedNorms which);

// The outputs of that node with the statistics of all ranks.
std::vector<Tensor> synchronise(const ReplayedNode& node, Tensor turn);

}  // namespace plimsoll::model
