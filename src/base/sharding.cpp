#include "base/sharding.h"

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll {

std::string_view name_of(Sharding sharding) {
  constexpr std::array<std::string_view, kShardings.size()> kNames{"none", "state", "gradients", "weights"};
  return kNames[static_cast<size_t>(sharding)];
}

Sharding parse_sharding(std::string_view name) {
  for (const Sharding one : kShardings)
    if (name_of(one) == name) return one;
  throw Error(fmt::format("ranks can't share '{}'; what they can share is none, state, gradients or weights", name),
              ErrorKind::Usage);
}

}  // namespace plimsoll
