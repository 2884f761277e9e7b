#include <plimsoll/types.h>

#include <array>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll {
namespace {

constexpr std::array<std::string_view, kTagCount> kNames{
    "weights", "gradients", "optimiser", "activations", "workspace", "data", "staging", "runtime", "eager"};

}  // namespace

std::string_view name_of(Tag tag) { return kNames[static_cast<size_t>(tag)]; }

Tag parse_tag(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<Tag>(i);
  throw Error(fmt::format("'{}' is not a memory tag; known are {}", name, fmt::join(kNames, " ")));
}

}  // namespace plimsoll
