#include <plimsoll/types.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll {
namespace {

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw Error(fmt::format("'{}' is not a size: {}; write it like 512MiB, 1.5GB, 80% or 1073741824", text, why),
              ErrorKind::Usage);
}

constexpr std::array<std::pair<std::string_view, double>, 15> kUnits{{{"b", 1},
                                                                      {"byte", 1},
                                                                      {"bytes", 1},
                                                                      {"kb", 1e3},
                                                                      {"mb", 1e6},
                                                                      {"gb", 1e9},
                                                                      {"tb", 1e12},
                                                                      {"kib", double(KiB)},
                                                                      {"mib", double(MiB)},
                                                                      {"gib", double(GiB)},
                                                                      {"tib", double(GiB) * 1024},
                                                                      {"k", double(KiB)},
                                                                      {"m", double(MiB)},
                                                                      {"g", double(GiB)},
                                                                      {"t", double(GiB) * 1024}}};

// Below this a bare number is more likely a forgotten unit than a count of bytes.
constexpr double kSmallestBareNumber = 64.0 * KiB;

}  // namespace

Bytes parse_bytes(std::string_view text, Bytes whole) {
  std::string_view rest = text;
  while (!rest.empty() && std::isspace(static_cast<unsigned char>(rest.front()))) rest.remove_prefix(1);
  while (!rest.empty() && std::isspace(static_cast<unsigned char>(rest.back()))) rest.remove_suffix(1);
  double number = 0;
  const auto [end, status] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (status != std::errc() || !std::isfinite(number)) refuse(text, "it has no number");
  if (number <= 0) refuse(text, "it must be greater than zero");
  rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  while (!rest.empty() && std::isspace(static_cast<unsigned char>(rest.front()))) rest.remove_prefix(1);

  std::string unit;
  for (const char c : rest) unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  double bytes = 0;
  if (unit.empty()) {
    if (number < kSmallestBareNumber) refuse(text, "it has no unit");
    bytes = number;
  } else if (unit == "%") {
    if (whole <= 0) refuse(text, "a share needs a known whole");
    if (number > 100) refuse(text, "a share is at most 100%");
    bytes = number / 100 * static_cast<double>(whole);
  } else {
    for (const auto& [name, factor] : kUnits)
      if (unit == name) bytes = number * factor;
    if (bytes == 0) refuse(text, fmt::format("unit '{}' is unknown", rest));
  }
  if (bytes > 9e18) refuse(text, "it is too large");
  return static_cast<Bytes>(bytes);
}

std::string format_bytes(Bytes bytes) {
  const double magnitude = std::abs(static_cast<double>(bytes));
  if (magnitude < KiB) return fmt::format("{} B", bytes);
  const auto show = [&](double unit, const char* name) {
    std::string digits = fmt::format("{:.{}f}", static_cast<double>(bytes) / unit, magnitude / unit < 10 ? 2 : 1);
    while (digits.back() == '0') digits.pop_back();
    if (digits.back() == '.') digits.pop_back();
    return digits + " " + name;
  };
  if (magnitude < MiB) return show(KiB, "KiB");
  if (magnitude < GiB) return show(MiB, "MiB");
  return show(GiB, "GiB");
}

std::string format_exact_bytes(Bytes bytes) {
  std::string digits = std::to_string(bytes);
  for (auto i = static_cast<int64_t>(digits.size()) - 3; i > (bytes < 0 ? 1 : 0); i -= 3)
    digits.insert(static_cast<size_t>(i), ",");
  return fmt::format("{} bytes ({})", digits, format_bytes(bytes));
}

}  // namespace plimsoll
