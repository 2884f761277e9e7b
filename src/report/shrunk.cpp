#include "report/shrunk.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace plimsoll::report {
namespace {

std::string change_text(const char* what, Bytes before, Bytes after) {
  return fmt::format("{:<10}{} -> {} ({:.2f} times smaller)\n", what, format_bytes(before), format_bytes(after),
                     static_cast<double>(before) / static_cast<double>(std::max<Bytes>(1, after)));
}

}  // namespace

std::string shrunk_text(const ShrunkFacts& facts) {
  std::string text;
  int64_t quantised = 0;
  for (const ShrunkLayer& layer : facts.layers) {
    quantised += layer.is_int8 ? 1 : 0;
    text += fmt::format("{:<10}{} ({})\n", layer.is_int8 ? "int8" : "f32", layer.name, layer.op);
  }
  text += fmt::format("layers    {} of {} in int8, calibrated on {} samples\n", quantised, facts.layers.size(),
                      facts.samples);
  text += change_text("on disk", facts.file_before, facts.file_after);
  text += change_text("in memory", facts.memory_before, facts.memory_after);
  return text + fmt::format("saved     {}\npeak      {} of a line of {}\n", facts.output, format_bytes(facts.peak),
                            format_bytes(facts.line));
}

std::string shrunk_json(const ShrunkFacts& facts) {
  nlohmann::json layers = nlohmann::json::array();
  for (const ShrunkLayer& layer : facts.layers)
    layers.push_back({{"name", layer.name}, {"op", layer.op}, {"int8", layer.is_int8}});
  return nlohmann::json{{"output", facts.output},
                        {"samples", facts.samples},
                        {"file_bytes", {{"before", facts.file_before}, {"after", facts.file_after}}},
                        {"memory_bytes", {{"before", facts.memory_before}, {"after", facts.memory_after}}},
                        {"layers", layers},
                        {"peak_bytes", facts.peak},
                        {"line_bytes", facts.line}}
      .dump();
}

}  // namespace plimsoll::report
