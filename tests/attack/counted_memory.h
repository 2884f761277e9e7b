// Counts what operator new hands out in this program, and refuses more than any test may need.
#pragma once

#include <plimsoll/types.h>

namespace plimsoll::testing {

Bytes allocated_bytes();       // now
Bytes peak_allocated_bytes();  // since the last reset
void reset_peak_allocated();

}  // namespace plimsoll::testing
