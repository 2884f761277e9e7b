#include "input/files/refuse.h"

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::input {

void refuse(const std::string& path, const std::string& what) {
  throw Error(fmt::format("{}: {}", path, what), ErrorKind::BadData);
}

void refuse(const std::string& path, Bytes at, const std::string& what) {
  throw Error(fmt::format("{}: at byte {}: {}", path, at, what), ErrorKind::BadData);
}

}  // namespace plimsoll::input
