// Refusals of bad data that name the file and the place.
#pragma once

#include <string>

#include <plimsoll/types.h>

namespace plimsoll::input {

// Throw Error(BadData): "PATH: WHAT" and "PATH: at byte AT: WHAT".
[[noreturn]] void refuse(const std::string& path, const std::string& what);
[[noreturn]] void refuse(const std::string& path, Bytes at, const std::string& what);

}  // namespace plimsoll::input
