#include "train/checkpoint_manifest.h"

#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <plimsoll/error.h>
#include "base/crc32c.h"

namespace plimsoll::train {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 2;

// JSON has no numbers for these.
constexpr const char* kInfinity = "inf";
constexpr const char* kMinusInfinity = "-inf";
constexpr const char* kNan = "nan";

Json from_number(double number) {
  if (std::isfinite(number)) return number;
  return std::isnan(number) ? kNan : number > 0 ? kInfinity : kMinusInfinity;
}

double to_number(const Json& json) {
  if (!json.is_string()) return json.get<double>();
  const auto& word = json.get_ref<const std::string&>();
  if (word == kNan) return std::numeric_limits<double>::quiet_NaN();
  if (word != kInfinity && word != kMinusInfinity) throw Error(fmt::format("'{}' is no number", word));
  return word == kInfinity ? HUGE_VAL : -HUGE_VAL;
}

// What callbacks keep may be any bytes; JSON takes UTF-8 alone.
std::string to_hex(std::string_view bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string from_hex(const std::string& text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    throw Error("a state is not written in hexadecimal");
  };
  if (text.size() % 2 != 0) throw Error("a state has half a byte");
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) bytes += static_cast<char>(16 * digit(text[i]) + digit(text[i + 1]));
  return bytes;
}

bool is_plain(std::string_view text) {
  for (const char c : text)
    if (c < ' ' || c > '~') return false;
  return true;
}

Json from_state(const std::string& state) {
  if (is_plain(state)) return {{"text", state}};
  return {{"hex", to_hex(state)}};
}

std::string to_state(const Json& json) {
  return json.contains("text") ? json.at("text").get<std::string>() : from_hex(json.at("hex").get<std::string>());
}

// Pairs in their order.
template <class Value, class Convert>
Json from_pairs(const std::vector<std::pair<std::string, Value>>& pairs, const Convert& convert) {
  Json list = Json::array();
  for (const auto& [name, value] : pairs) list.push_back({name, convert(value)});
  return list;
}

template <class Value, class Convert>
std::vector<std::pair<std::string, Value>> to_pairs(const Json& list, const Convert& convert) {
  std::vector<std::pair<std::string, Value>> pairs;
  for (const Json& pair : list) pairs.emplace_back(pair.at(0).get<std::string>(), convert(pair.at(1)));
  return pairs;
}

Json from_epoch(const EpochLog& epoch) {
  Json logs = Json::array();
  for (const LogValue& log : epoch.logs) logs.push_back({log.name, from_number(log.value)});
  return {{"epoch", epoch.epoch}, {"steps", epoch.steps}, {"logs", std::move(logs)}};
}

EpochLog to_epoch(const Json& json) {
  EpochLog epoch{.epoch = json.at("epoch"), .steps = json.at("steps")};
  for (const Json& log : json.at("logs")) epoch.logs.push_back({log.at(0).get<std::string>(), to_number(log.at(1))});
  return epoch;
}

Json from_run(const RunState& run) {
  return {{"epoch", run.epoch},
          {"epoch_steps", run.epoch_steps},
          {"run_steps", run.run_steps},
          {"seed", run.seed},
          {"validation", run.validation},
          {"data", {{"dataset", run.data.dataset}, {"epoch", run.data.epoch}, {"position", run.data.position}}},
          {"sums", from_pairs(run.sums, from_number)},
          {"callbacks", from_pairs(run.callbacks, from_state)}};
}

RunState to_run(const Json& json) {
  RunState run;
  run.epoch = json.at("epoch");
  run.epoch_steps = json.at("epoch_steps");
  run.run_steps = json.at("run_steps");
  run.seed = json.at("seed");
  const Json& data = json.at("data");
  run.validation = json.value("validation", uint64_t{0});
  run.data = {data.at("dataset"), data.at("epoch"), data.at("position")};
  run.sums = to_pairs<double>(json.at("sums"), to_number);
  run.callbacks = to_pairs<std::string>(json.at("callbacks"), to_state);
  return run;
}

// The checksum of the text without the checksum itself. Objects are sorted by key and numbers are as short as they can
// be, so the same content has the same text.
std::string checksum_of(const Json& manifest) {
  const std::string text = manifest.dump();
  return fmt::format("{:08x}", crc32c(std::as_bytes(std::span(text))));
}

[[noreturn]] void refuse_names() {
  throw Error("a name of the model, of a metric or of a callback is not UTF-8 and can't be saved; give another name",
              ErrorKind::Usage);
}

}  // namespace

std::string history_line(const EpochLog& epoch) {
  try {
    return from_epoch(epoch).dump();
  } catch (const Json::exception&) {
    refuse_names();
  }
}

EpochLog parse_history_line(const std::string& line, const std::string& path) {
  const Json json = Json::parse(line, nullptr, false);
  try {
    if (json.is_object()) return to_epoch(json);
  } catch (const std::exception&) {  // of the numbers in it, or of their absence
  }
  throw Error(fmt::format("'{}' is no history of a training: a line is damaged", path), ErrorKind::BadData);
}

std::string manifest_text(const CheckpointManifest& manifest) {
  Json files = Json::array();
  for (const memory::CheckedFile& file : manifest.files)
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"crc32c", fmt::format("{:08x}", file.checksum)}});
  Json json = {{"version", kVersion},
               {"steps", manifest.steps},
               {"facts", from_pairs(manifest.facts, [](const std::string& fact) { return fact; })},
               {"run", from_run(manifest.run)},
               {"files", std::move(files)}};
  try {
    json["crc32c"] = checksum_of(json);
    return json.dump(1) + "\n";
  } catch (const Json::exception&) {
    refuse_names();
  }
}

CheckpointManifest parse_manifest(const std::string& text, const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    throw Error(fmt::format("'{}' is no manifest of a checkpoint: {}", path, why), ErrorKind::BadData);
  };
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) refuse("it is truncated or damaged");
  CheckpointManifest manifest;
  try {
    const int version = json.at("version");
    if (version != kVersion) refuse(fmt::format("it has version {}, not {}", version, kVersion));
    const std::string checksum = json.at("crc32c");
    json.erase("crc32c");
    if (checksum != checksum_of(json)) refuse("its checksum is wrong, so it is damaged");
    manifest.steps = json.at("steps");
    manifest.facts = to_pairs<std::string>(json.at("facts"), [](const Json& fact) { return fact.get<std::string>(); });
    manifest.run = to_run(json.at("run"));
    for (const Json& file : json.at("files"))
      manifest.files.push_back({file.at("name"), file.at("bytes"),
                                static_cast<uint32_t>(std::stoul(file.at("crc32c").get<std::string>(), nullptr, 16))});
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::BadData) throw;
    refuse(e.what());
  } catch (const Json::exception&) {
    refuse("a part of it is missing or damaged");
  } catch (const std::logic_error&) {  // from stoul
    refuse("the checksum of a file is no number");
  }
  return manifest;
}

}  // namespace plimsoll::train
