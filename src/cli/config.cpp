#include "cli/config.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <plimsoll/error.h>
#include "base/nearest.h"
#include "cli/usage.h"
#include "report/run_report.h"

namespace plimsoll::cli {
namespace {

using report::ConfigEntry;
using Kind = ConfigEntry::Kind;

constexpr std::string_view kFlag = "--config";
constexpr std::string_view kSave = "save";  // takes model and options of a run, but not the weights it started from
// Flags of one command line, which are not part of a config.
constexpr std::string_view kNotInConfigs[] = {"config", "help", "help-all"};

bool is_in_configs(const CLI::Option& option) {
  return std::ranges::none_of(kNotInConfigs,
                              [&](std::string_view name) { return option.check_lname(std::string(name)); });
}

Kind kind_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return Kind::Switch;
  if (option.get_delimiter() != '\0') return Kind::List;
  const std::string type = option.get_type_name();
  if (type.starts_with("INT") || type.starts_with("UINT")) return Kind::Whole;
  return type.starts_with("FLOAT") ? Kind::Real : Kind::Text;
}

// A list of one item may be given as a string, and a real number as a whole one.
bool accepts(Kind wanted, Kind given) {
  return wanted == given || (wanted == Kind::List && given == Kind::Text) ||
         (wanted == Kind::Real && given == Kind::Whole);
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(fmt::format("{}: {}", path, why), ErrorKind::Usage);
}

[[noreturn]] void refuse_key(const std::string& path, const std::string& key, const CLI::App& verb) {
  std::vector<std::string> names = names_of(verb);
  std::erase_if(
      names, [](const std::string& name) { return std::ranges::find(kNotInConfigs, name) != std::end(kNotInConfigs); });
  const std::string meant = likely_meant(key, names);
  refuse(path, fmt::format("unknown key '{}'{}", key,
                           meant.empty() ? "; keys are the flags of plimsoll train, without dashes"
                                         : fmt::format("; did you mean '{}'?", meant)));
}

std::string shown(const ConfigEntry& entry) {
  if (entry.kind == Kind::List) return "a list";
  return entry.kind == Kind::Text ? fmt::format("\"{}\"", entry.values[0]) : entry.values[0];
}

// The value of the last flag of that name among the words; empty: there is none.
std::string value_of(const std::vector<std::string>& words, std::string_view flag) {
  std::string value;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == flag && i + 1 < words.size()) value = words[i + 1];
    if (words[i].starts_with(fmt::format("{}=", flag))) value = words[i].substr(flag.size() + 1);
  }
  return value;
}

}  // namespace

std::string find_config(const std::vector<std::string>& words) {
  std::string path = value_of(words, kFlag);
  const bool takes_run = std::ranges::find(words, "--resume") != words.end() || (!words.empty() && words[0] == kSave);
  if (!path.empty() || !takes_run) return path;
  const std::string run = value_of(words, "--run");
  if (run.empty()) return "";
  if (!report::is_run_directory(run))
    throw Error(
        fmt::format("run folder '{}': holds no run that could be resumed; leave --resume away to start one", run),
        ErrorKind::Usage);
  return fmt::format("{}/{}", run, report::kConfigFile);
}

std::vector<std::string> config_words(const std::string& path, const CLI::App& verb,
                                      const std::vector<const CLI::App*>& others) {
  std::vector<std::string> words;
  for (const ConfigEntry& entry : report::read_config(path)) {
    const CLI::Option* option = find_option(verb, entry.name);
    const CLI::Option* known = option;
    for (auto other = others.begin(); known == nullptr && other != others.end(); ++other)
      known = find_option(**other, entry.name);
    if (known == nullptr || !is_in_configs(*known)) refuse_key(path, entry.name, *others.front());
    if (!accepts(kind_of(*known), entry.kind))
      refuse(path, fmt::format("'{}' must be {}, not {}", entry.name, report::name_of(kind_of(*known)), shown(entry)));
    if (option == nullptr || option->count() > 0 || (verb.get_name() == kSave && entry.name == "weights")) continue;
    const std::string value = fmt::format("{}", fmt::join(entry.values, ","));
    if (value.empty()) continue;  // as if it were not there
    if (option->get_positional())
      words.insert(words.begin(), value);  // first: behind a list it would be one more item
    else if (entry.kind != Kind::Switch)
      words.push_back(fmt::format("--{}={}", entry.name, value));
    else if (value == "true")
      words.push_back("--" + entry.name);
  }
  return words;
}

report::Config given_options(const CLI::App& verb) {
  report::Config config;
  for (const CLI::Option* option : verb.get_options({})) {
    if (option->count() == 0 || !is_in_configs(*option)) continue;
    ConfigEntry entry{option->get_single_name(), kind_of(*option), option->reduced_results()};
    if (entry.kind == Kind::List) {
      entry.values = option->results();
    } else if (entry.values.size() > 1) {
      entry.values = {entry.values.back()};
    }
    config.push_back(entry);
  }
  return config;
}

}  // namespace plimsoll::cli
