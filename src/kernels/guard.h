// A guarded update runs only in steps where its last input, a scalar, is not 0: the kernel of any operator, wrapped.
#pragma once

#include "kernels/kernel.h"

namespace plimsoll::kernels {

// op.prepare(facts) without the guard among the inputs; the kernel runs if the guard is not 0.
Prepared prepare_guarded(const Op& op, const Facts& facts);

}  // namespace plimsoll::kernels
