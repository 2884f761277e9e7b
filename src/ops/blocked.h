// Layouts that keep channels in blocks (nChw8c): what operators that only move or sum elements need to know of them.
#pragma once

#include "ops/kernel.h"

namespace plimsoll {

// The block of dimension 1 if the tensor is stored as [N, C/block, ..., block] without padding; 0 otherwise.
int64_t channel_block(const ConcreteType& type);
// That layout for a tensor of other sizes (dims[1] a multiple of the block).
Layout channel_blocked(DType dtype, const Dims& dims, int64_t block);

}  // namespace plimsoll
