#include "support/forced.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include <plimsoll/error.h>
#include "support/disk_folder.h"

namespace plimsoll::testing {
namespace {

const std::map<std::string, bool Levers::*> kLevers = {
    {"order", &Levers::order},         {"in_place", &Levers::in_place},       {"variants", &Levers::variants},
    {"recompute", &Levers::recompute}, {"micro_batch", &Levers::micro_batch}, {"spill", &Levers::spill}};
const std::map<std::string, Sign> kSigns = {{"smaller_arena", Sign::SmallerArena},
                                            {"recompute", Sign::Recompute},
                                            {"micro_batch", Sign::MicroBatch},
                                            {"spill", Sign::Spill}};
const std::map<std::string, bool> kAnswers = {{"yes", true}, {"no", false}};

template <class Value>
Value look_up(const std::map<std::string, Value>& known, const std::string& word, const std::string& where) {
  const auto found = known.find(word);
  if (found == known.end()) throw Error(where + ": unknown word '" + word + "'");
  return found->second;
}

// One for all sessions of the process, because an engine does not own its folder.
const std::string& scratch_folder() {
  static const DiskFolder folder;
  return folder;
}

}  // namespace

std::vector<std::string> mode_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(PLIMSOLL_TEST_CONFIGS))
    if (entry.path().extension() == ".cfg") names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

Mode read_mode(const std::string& name) {
  const std::string path = std::string(PLIMSOLL_TEST_CONFIGS) + "/" + name + ".cfg";
  std::ifstream file(path);
  if (!file) throw Error("there is no mode '" + name + "': " + path + " can't be read");
  Mode mode;
  mode.name = name;
  std::string line, key, equals, word;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    if (!(words >> key) || key[0] == '#') continue;
    words >> equals;
    if (key == "levers") {
      mode.levers = {false, false, false, false, false, false};
      while (words >> word) mode.levers.*look_up(kLevers, word, path) = true;
      continue;
    }
    words >> word;
    if (key == "scratch") {
      mode.has_scratch = look_up(kAnswers, word, path);
    } else if (key == "shows") {
      mode.shows = look_up(kSigns, word, path);
    } else if (key == "same_bits") {
      mode.keeps_bits = look_up(kAnswers, word, path);
    } else {
      throw Error(path + ": unknown key '" + key + "'");
    }
  }
  return mode;
}

const Mode* forced_mode() {
  static const std::optional<Mode> mode = []() -> std::optional<Mode> {
    const char* name = std::getenv("PLIMSOLL_TEST_MODE");
    if (name == nullptr || *name == '\0') return std::nullopt;
    return read_mode(name);
  }();
  return mode ? &*mode : nullptr;
}

bool keeps_bits() { return forced_mode() == nullptr || forced_mode()->keeps_bits; }

session::Engine make_engine(Graph& graph, MemoryLine& line, const std::vector<session::Request>& requests,
                            const SessionOptions& options) {
  const Mode* mode = forced_mode();
  if (mode == nullptr || line.limit() != MemoryLine::kUnlimited) return session::Engine(graph, line, requests, options);
  return make_engine_in(*mode, graph, line, requests, options);
}

session::Engine make_engine_in(const Mode& mode, Graph& graph, MemoryLine& line,
                               const std::vector<session::Request>& requests, const SessionOptions& options) {
  SessionOptions forced = options;
  // What the test itself switched off stays off.
  for (const auto& [name, lever] : kLevers) forced.levers.*lever = options.levers.*lever && mode.levers.*lever;
  if (mode.has_scratch && forced.scratch_folder.empty()) {
    forced.scratch_folder = scratch_folder();
    forced.disk_limit = GiB;
  }
  // A refusal names what its own step needs: a later step of the session may need more.
  for (Bytes bytes = 1;;) {
    line = MemoryLine(bytes);
    try {
      return session::Engine(graph, line, requests, forced);
    } catch (const DoesNotFit& refused) {
      if (refused.refusal().need <= bytes) throw;
      bytes = refused.refusal().need;
    }
  }
}

bool has_sign(const session::Engine& engine, Sign sign) {
  const session::PlannedStep& step = engine.steps().front();
  const plan::Tally tally = plan::count_work(step.program.problem, step.plan);
  switch (sign) {
    case Sign::SmallerArena:
      return step.plan.arena_bytes < step.plan.unconstrained_bytes;
    case Sign::Recompute:
      return tally.reruns > 0;
    case Sign::MicroBatch:
      return step.plan.micro_batches.size() > 1;
    case Sign::Spill:
      return tally.spilled_bytes + tally.streamed_bytes > 0 && engine.file_bytes() > 0;
  }
  return false;
}

}  // namespace plimsoll::testing
