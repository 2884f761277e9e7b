// How much of a line that covers the process is kept free for pages of code.
#pragma once

#include <plimsoll/types.h>

namespace plimsoll::memory {

// For a program that runs more code than the library alone, in lines made from now on.
void set_code_room(Bytes bytes) noexcept;

}  // namespace plimsoll::memory
