// Sizes in bytes: how people write them, how they are shown, and what memory is held for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll {

using Bytes = int64_t;

constexpr Bytes KiB = 1024;
constexpr Bytes MiB = 1024 * KiB;
constexpr Bytes GiB = 1024 * MiB;

// Every buffer starts on such a boundary: one cache line, and wide enough for any vector unit.
constexpr Bytes kAlignment = 64;
constexpr Bytes kDiskBlock = 4096;  // what places and lengths in the scratch file are multiples of

constexpr Bytes round_up(Bytes bytes, Bytes multiple) { return (bytes + multiple - 1) / multiple * multiple; }

// "512MiB", "1.5 GB", "80%" (of `whole`), "1048576": case-insensitive, MB is 10^6 and MiB 2^20. One letter is the
// binary unit, as with most tools: 64K, 512M, 1G and 2T are KiB, MiB, GiB and TiB. A number without a unit must be
// large enough to be meant as bytes. Throws Error with an example.
Bytes parse_bytes(std::string_view text, Bytes whole = 0);

// "212.4 MiB": short, for people.
std::string format_bytes(Bytes bytes);

// "100,663,296 bytes (96 MiB)": exact, for echoing.
std::string format_exact_bytes(Bytes bytes);

// What memory is held for: the rows of every memory report.
enum class Tag : uint8_t { Weights, Gradients, Optimiser, Activations, Workspace, Data, Staging, Runtime, Eager };

constexpr size_t kTagCount = 9;

std::string_view name_of(Tag tag);     // "weights"
Tag parse_tag(std::string_view name);  // throws Error

}  // namespace plimsoll
