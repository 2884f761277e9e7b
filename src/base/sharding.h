// What ranks that train together share of weights, gradients and optimiser state.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace plimsoll {

// Each kind includes those before it.
enum class Sharding : uint8_t { None, State, Gradients, Weights };
inline constexpr std::array kShardings{Sharding::None, Sharding::State, Sharding::Gradients, Sharding::Weights};

// "none", "state", "gradients", "weights".
std::string_view name_of(Sharding sharding);
Sharding parse_sharding(std::string_view name);  // throws Error(Usage)

}  // namespace plimsoll
