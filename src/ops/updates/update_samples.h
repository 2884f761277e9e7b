// The samples that every update of elements has: the op test proves dense and row-sparse gradients, clipping, both
// decays, a factor and states of 16 bits.
#pragma once

#include "ops/sample.h"

namespace plimsoll::ops {

// `name`: of the operator; `states`: how many it has, drawn between `low` and `high`.
std::vector<Sample> update_samples(std::string_view name, size_t states, const Attrs& settings, double low = 0.1,
                                   double high = 1);

}  // namespace plimsoll::ops
