#include "input/files/class_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace plimsoll::input {

ClassNames::ClassNames(std::vector<std::string> names) : names_(std::move(names)), by_name_(names_.size()) {
  std::iota(by_name_.begin(), by_name_.end(), 0U);
  std::ranges::stable_sort(by_name_, {}, [&](uint32_t number) -> const std::string& { return names_[number]; });
}

int64_t ClassNames::find(std::string_view name) const {
  const auto of = [&](uint32_t number) -> std::string_view { return names_[number]; };
  const auto found = std::ranges::lower_bound(by_name_, name, {}, of);
  return found == by_name_.end() || of(*found) != name ? -1 : int64_t{*found};
}

std::string shown_names(const std::vector<std::string>& names) {
  constexpr size_t kShown = 10;
  const auto shown = static_cast<std::ptrdiff_t>(std::min(names.size(), kShown));
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + shown, ", "),
                     names.size() > kShown ? ", ..." : "");
}

}  // namespace plimsoll::input
