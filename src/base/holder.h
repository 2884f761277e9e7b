// Who holds memory: the rows of a refusal.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/tag.h"

namespace plimsoll {

struct Holder {
  std::string name;
  Tag tag = Tag::Workspace;
  Bytes bytes = 0;
  bool operator==(const Holder&) const = default;
};

}  // namespace plimsoll
