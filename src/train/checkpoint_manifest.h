// The manifest of a checkpoint: what it belongs to, where the run is, and the size and checksum of each of its files.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <plimsoll/types.h>
#include "memory/checked_file.h"
#include "train/run_state.h"

namespace plimsoll::train {

// What of a training must be the same for a checkpoint of it to be loaded: a name for people, and a value.
using CheckpointFacts = std::vector<std::pair<std::string, std::string>>;

struct CheckpointManifest {
  int64_t steps = 0;  // of training
  CheckpointFacts facts;
  RunState run;  // without its history, which is a file of its own
  std::vector<memory::CheckedFile> files;
};

// JSON. Numbers come back exactly, those that are not finite too; the text holds a checksum of itself.
std::string manifest_text(const CheckpointManifest& manifest);
// Throws Error(BadData) that names the path for a text that is damaged or of another version.
CheckpointManifest parse_manifest(const std::string& text, const std::string& path);

// One epoch of the history as a line of JSON, without the end of line.
std::string history_line(const EpochLog& epoch);
EpochLog parse_history_line(const std::string& line, const std::string& path);  // throws Error(BadData)

}  // namespace plimsoll::train
