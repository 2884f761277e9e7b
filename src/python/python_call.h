// Calls into Python from threads of the engine, some of which have stacks that are too small for it.
#pragma once

#include <functional>

namespace plimsoll::python {

// Runs `work`, which takes the interpreter lock itself: here, or where this thread's stack is small, on a thread with a
// usual one that waits for the work of this thread alone. Exceptions come out here.
void call_python(const std::function<void()>& work);

}  // namespace plimsoll::python
