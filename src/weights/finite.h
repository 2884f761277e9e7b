// Whether numbers in memory are finite.
#pragma once

#include <cstddef>
#include <span>

#include <plimsoll/types.h>

namespace plimsoll::weights {

// False when one of them is an infinity or a NaN; integers never are.
bool is_finite(DType dtype, std::span<const std::byte> numbers);

}  // namespace plimsoll::weights
