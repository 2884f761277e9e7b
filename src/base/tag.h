// What a byte is held for: the tags of reservations are the lines of the report.
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll {

enum class Tag : uint8_t { Weights, Gradients, Optimiser, Activations, Workspace, Data, Staging, Runtime, Eager };

inline constexpr int kTagCount = 9;

constexpr std::string_view name_of(Tag tag) {
  switch (tag) {
    case Tag::Weights:
      return "weights";
    case Tag::Gradients:
      return "gradients";
    case Tag::Optimiser:
      return "optimiser";
    case Tag::Activations:
      return "activations";
    case Tag::Workspace:
      return "workspace";
    case Tag::Data:
      return "data";
    case Tag::Staging:
      return "staging";
    case Tag::Runtime:
      return "runtime";
    case Tag::Eager:
      return "eager";
  }
  return "unknown";
}

}  // namespace plimsoll
