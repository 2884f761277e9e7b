// The options of a run as a JSON object: names of flags and their values.
#pragma once

#include <string>
#include <vector>

namespace plimsoll::report {

struct ConfigEntry {
  enum class Kind { Switch, Whole, Real, Text, List };
  std::string name;  // of the flag, without dashes
  Kind kind = Kind::Text;
  std::vector<std::string> values = {};  // one, but for a list; of a switch "true" or "false"
  bool operator==(const ConfigEntry&) const = default;
};
using Config = std::vector<ConfigEntry>;

// "a whole number": what a value of that kind is called.
std::string name_of(ConfigEntry::Kind kind);

// Entries in the order of the file. Throws Error(Usage) that names the place of damaged JSON; or the key of a value
// that no flag can have (null, an object, a list in a list), and a key that occurs twice.
Config read_config(const std::string& path);
// One key a line, so that two runs can be compared with diff.
std::string config_json(const Config& config);

// Sets the entry of that name, or adds one.
void set_entry(Config& config, const ConfigEntry& entry);
void remove_entry(Config& config, const std::string& name);

}  // namespace plimsoll::report
