#include "report/data.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "report/json.h"
#include "report/words.h"

namespace plimsoll::report {
namespace {

constexpr size_t kShownClasses = 10;

// Names of files and types are long; "read(...)" is what fits a table.
std::string short_name(const std::string& name) {
  constexpr size_t kLongest = 30;
  return name.size() <= kLongest ? name : name.substr(0, name.find('(')) + "(...)";
}

double milliseconds(int64_t ns) { return static_cast<double>(ns) / 1e6; }

}  // namespace

std::string data_text(const InputFacts& facts) {
  std::string text =
      fmt::format("{}: {}, {} elements of {}", facts.path, facts.kind, grouped_text(facts.elements), facts.fields);
  if (facts.test_elements > 0) text += fmt::format("; {} to validate with", grouped_text(facts.test_elements));
  if (facts.classes.empty()) return text;
  const auto shown = static_cast<int64_t>(std::min(facts.classes.size(), kShownClasses));
  return text + fmt::format("; {} classes: {}{}", facts.classes.size(),
                            fmt::join(facts.classes.begin(), facts.classes.begin() + shown, ", "),
                            facts.classes.size() > kShownClasses ? ", ..." : "");
}

std::string stages_text(const std::vector<StageReport>& stages) {
  std::vector<std::string> parts;
  for (const StageReport& stage : stages)
    if (stage.bytes > 0) parts.push_back(fmt::format("{} {}", short_name(stage.name), format_bytes(stage.bytes)));
  return fmt::format("{}", fmt::join(parts, " · "));
}

nlohmann::json data_json(const InputFacts& facts) {
  nlohmann::json stages = nlohmann::json::array();
  for (const StageReport& stage : facts.stages)
    stages.push_back({{"name", stage.name}, {"bytes", stage.bytes}, {"threads", stage.threads}});
  return {{"path", facts.path},
          {"kind", facts.kind},
          {"fields", facts.fields},
          {"elements", facts.elements},
          {"test_elements", facts.test_elements},
          {"classes", facts.classes},
          {"stages", stages}};
}

std::string data_profile_text(const DataProfile& profile) {
  std::string text = fmt::format("\n{:<30} {:>10} {:>8} {:>10} {:>10} {:>10}\n", "stage of the data", "bytes",
                                 "threads", "elements", "busy ms", "waiting ms");
  for (const StageReport& stage : profile.stages)
    text += fmt::format("{:<30} {:>10} {:>8} {:>10} {:>10.1f} {:>10.1f}\n", short_name(stage.name),
                        format_bytes(stage.bytes), stage.threads, stage.elements, milliseconds(stage.busy_ns),
                        milliseconds(stage.waiting_ns));
  return text + fmt::format("steps waited for data {:.1f} ms of {:.1f} ms ({:.2f} %)\n",
                            milliseconds(profile.waited_ns), milliseconds(profile.all_ns),
                            100 * profile.waiting_share());
}

nlohmann::json data_profile_json(const DataProfile& profile) {
  nlohmann::json stages = nlohmann::json::array();
  for (const StageReport& stage : profile.stages)
    stages.push_back({{"name", stage.name},
                      {"bytes", stage.bytes},
                      {"threads", stage.threads},
                      {"elements", stage.elements},
                      {"busy_ns", stage.busy_ns},
                      {"waiting_ns", stage.waiting_ns}});
  return {{"stages", stages},
          {"waited_ns", profile.waited_ns},
          {"all_ns", profile.all_ns},
          {"waiting_share", profile.waiting_share()}};
}

}  // namespace plimsoll::report
