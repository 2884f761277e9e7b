// A guarded update runs only in steps where its last input, a scalar, is not 0: the kernel of any operator, wrapped.
#pragma once

#include "kernels/kernel.h"

namespace plimsoll::kernels {

// op.prepare(facts), which knows nothing of guards.
Prepared prepare_guarded(const Op& op, const Facts& facts);

}  // namespace plimsoll::kernels
