#include "report/config_file.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <plimsoll/error.h>
#include "memory/file.h"

namespace plimsoll::report {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ConfigEntry::Kind;

constexpr Bytes kLongestConfig = MiB;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(fmt::format("{}: {}", path, why), ErrorKind::Usage);
}

memory::File open_config(const std::string& path) {
  try {
    return memory::File::open(path);
  } catch (const Error& e) {
    throw Error(e.what(), ErrorKind::Usage);  // it is no data
  }
}

std::string read_text(const std::string& path) {
  const memory::File file = open_config(path);
  if (file.size() > kLongestConfig)
    refuse(path, fmt::format("a config file is a JSON object of at most {}, and this one has {}",
                             format_bytes(kLongestConfig), format_bytes(file.size())));
  std::string text(static_cast<size_t>(file.size()), '\0');
  text.resize(static_cast<size_t>(file.read_some(0, file.size(), text.data(), path)));
  return text;
}

Json parse(const std::string& path, const std::string& text) {
  std::set<std::string> keys;
  const auto expect_once = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event != Json::parse_event_t::key || depth != 1) return true;
    if (!keys.insert(parsed.get<std::string>()).second)
      refuse(path, fmt::format("'{}' is there twice; keep one", parsed.get<std::string>()));
    return true;
  };
  try {
    return Json::parse(text, expect_once);
  } catch (const Json::exception& e) {
    // "[json.exception.parse_error.101] parse error at line 2, column 4: ...": the code is of no use.
    const std::string what = e.what();
    const size_t code = what.find("] ");
    refuse(path, code == std::string::npos ? what : what.substr(code + 2));
  }
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

Kind kind_of(const Json& value) {
  if (value.is_boolean()) return Kind::Switch;
  if (value.is_number_integer()) return Kind::Whole;
  if (value.is_number_float()) return Kind::Real;
  return value.is_array() ? Kind::List : Kind::Text;
}

ConfigEntry entry_of(const std::string& path, const std::string& name, const Json& value) {
  const auto is_plain = [](const Json& one) { return one.is_primitive() && !one.is_null(); };
  if (!is_plain(value) && !value.is_array())
    refuse(path, fmt::format("'{}' is {}; give a string, a number, true, false, or a list of strings", name,
                             value.is_null() ? "null" : "an object"));
  ConfigEntry entry{name, kind_of(value)};
  if (!value.is_array()) entry.values = {text_of(value)};
  if (!value.is_array()) return entry;
  for (const Json& one : value) {
    if (!is_plain(one)) refuse(path, fmt::format("'{}' holds {}; give a list of strings", name, one.dump()));
    entry.values.push_back(text_of(one));
  }
  return entry;
}

// People may write ".5" or "+3", which JSON does not know.
Json json_of(const ConfigEntry& entry) {
  if (entry.kind == Kind::List) return entry.values;
  const std::string& text = entry.values.at(0);
  if (entry.kind == Kind::Switch) return text == "true";
  if (entry.kind == Kind::Whole && text.starts_with('-')) return std::strtoll(text.c_str(), nullptr, 0);
  if (entry.kind == Kind::Whole) return std::strtoull(text.c_str(), nullptr, 0);
  if (entry.kind == Kind::Real) return std::strtod(text.c_str(), nullptr);
  return text;
}

}  // namespace

std::string name_of(Kind kind) {
  switch (kind) {
    case Kind::Switch:
      return "true or false";
    case Kind::Whole:
      return "a whole number";
    case Kind::Real:
      return "a number";
    case Kind::Text:
      return "a string";
    case Kind::List:
      return "a list of strings";
  }
  return "unknown";
}

Config read_config(const std::string& path) {
  const Json object = parse(path, read_text(path));
  if (!object.is_object()) refuse(path, "a config file is a JSON object: {\"batch\": 32, \"memory\": \"512MiB\"}");
  Config config;
  for (const auto& [name, value] : object.items()) config.push_back(entry_of(path, name, value));
  return config;
}

std::string config_json(const Config& config) {
  Json object = Json::object();
  for (const ConfigEntry& entry : config) object[entry.name] = json_of(entry);
  return object.dump(2, ' ', false, Json::error_handler_t::replace);
}

void set_entry(Config& config, const ConfigEntry& entry) {
  const auto place = std::ranges::find(config, entry.name, &ConfigEntry::name);
  if (place == config.end())
    config.push_back(entry);
  else
    *place = entry;
}

void remove_entry(Config& config, const std::string& name) {
  std::erase_if(config, [&](const ConfigEntry& entry) { return entry.name == name; });
}

}  // namespace plimsoll::report
