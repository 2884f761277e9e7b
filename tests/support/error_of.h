// The message of the Error that an action throws.
#pragma once

#include <functional>
#include <string>

#include <plimsoll/error.h>

namespace plimsoll::testing {

inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace plimsoll::testing
