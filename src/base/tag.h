// What memory is held for: the rows of every memory report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace plimsoll {

enum class Tag : uint8_t { Weights, Gradients, Optimiser, Activations, Workspace, Data, Staging, Runtime, Eager };

constexpr size_t kTagCount = 9;

std::string_view name_of(Tag tag);     // "weights"
Tag parse_tag(std::string_view name);  // throws Error

}  // namespace plimsoll
