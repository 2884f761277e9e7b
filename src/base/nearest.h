// The known word that a mistyped one is nearest to, for messages that ask "did you mean ...?".
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

// Number of letters to insert, drop, change, or swap with their neighbour.
size_t edit_distance(std::string_view a, std::string_view b);

// The known word with the smallest distance, the first of several; empty when there are none.
std::string nearest(std::string_view word, std::span<const std::string> known);
// The known word that was likely meant; empty where `word` has little in common with all of them.
std::string likely_meant(std::string_view word, std::span<const std::string> known);

// Its letters and digits alone, in small: "AdamW" and "adam_w" are one name.
std::string plain_name(std::string_view name);

// Whether a pattern matches the whole name: * is any text, ? one character, [abc] one of these.
bool fits_pattern(const std::string& pattern, std::string_view name);

}  // namespace plimsoll
