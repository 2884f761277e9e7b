// The threads that OpenMP keeps for the calling thread.
#pragma once

#include <plimsoll/threads.h>

namespace plimsoll {

// They exist from now on, with what they take. gcc leaves out a parallel region that does nothing.
void start_pool(int count = threads()) noexcept;

}  // namespace plimsoll
