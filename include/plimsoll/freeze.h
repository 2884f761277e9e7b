// Which weights training leaves alone: they get no gradient and no optimiser state.
//
//   net.compile({.optimiser = Optimiser::adam(), .loss = "mse", .freeze = {.patterns = {"*/conv*"}}});
//   net.compile({..., .freeze = {.all_but = {"*/head/*"}, .type = DType::I8}});
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <plimsoll/dtype.h>

namespace plimsoll {

// Patterns match whole names of variables, "resnet18/stem/kernel": * is any text, ? one character, [abc] one of these.
// A layer's statistics that match stay as they are too.
struct Freeze {
  std::vector<std::string> patterns = {};  // variables that match one are frozen
  std::vector<std::string> all_but = {};   // these are not; without `patterns`, all others are frozen
  // In what type frozen matrices and filters are kept: BF16, or I8 with a scale for each 64 weights. Lossy.
  DType type = DType::F32;

  bool is_empty() const { return patterns.empty() && all_but.empty(); }
  bool freezes(std::string_view name) const;
  bool operator==(const Freeze&) const = default;
};

}  // namespace plimsoll
