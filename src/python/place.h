// The place in the Python program that called into the module: messages and reports name it.
#pragma once

#include <source_location>

#include <plimsoll/tensor.h>

namespace plimsoll::python {

// Frames of the package itself are passed over. Needs the interpreter lock.
std::source_location place();

inline Name name_here(std::string_view name = {}) { return {name, place()}; }

}  // namespace plimsoll::python
