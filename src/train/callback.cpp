#include <plimsoll/callback.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>

namespace plimsoll {

std::optional<double> find_log(std::span<const LogValue> logs, std::string_view name) {
  for (const LogValue& log : logs)
    if (log.name == name) return log.value;
  return std::nullopt;
}

std::vector<double> History::operator[](std::string_view name) const {
  std::vector<double> values;
  for (const EpochLog& epoch : epochs)
    if (const auto value = epoch.log(name)) values.push_back(*value);
  if (!values.empty() || epochs.empty()) return values;
  std::vector<std::string> known;
  for (const LogValue& log : epochs.front().logs) known.push_back(log.name);
  throw Error(fmt::format("the history has no '{}'; it has {}", name, fmt::join(known, ", ")), ErrorKind::Usage);
}

}  // namespace plimsoll
