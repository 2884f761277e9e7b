// What the command line says, after parsing: one struct that all verbs read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autodiff/optimiser.h"
#include "memory/default_line.h"
#include "model/zoo.h"
#include "plan/limits.h"

namespace plimsoll::cli {

struct Settings {
  // The model and its step.
  std::string model;
  ModelOptions model_options;
  int64_t batch = 0;  // 0: the model's own
  std::string optimiser = "adam";
  double learning_rate = 0;  // 0: the optimiser's own
  double momentum = 0;
  double global_clip_norm = 0;
  uint64_t seed = 1;
  int threads = 0;  // 0: all

  // The line.
  std::string memory;
  std::vector<std::string> without;       // levers that must not be pulled
  std::vector<std::string> split;         // operators that may take each part of a batch for a batch of its own
  std::vector<std::string> half_storage;  // what is kept in 16 bits: values, state
  std::string disk_limit;                 // of the scratch file; empty: what is free, less a reserve
  bool auto_batch = false;                // the largest batch that fits whole

  // The data.
  std::string data;              // folder with files under their usual names
  std::string train_x, train_y;  // or file by file
  std::string test_x, test_y;
  std::string scratch;  // folder for temporary files, and for what does not fit in memory

  // The run.
  int64_t epochs = 1;
  int64_t steps = 0;    // stop after so many; 0: whole epochs
  std::string weights;  // to start from
  std::string save;     // to write at the end

  // The output.
  bool json = false;
  bool measure = false;      // doctor: the disk, again
  bool no_remedies = false;  // a refusal names the smallest line and searches no further
  std::string progress = "auto";
  bool curve = false;  // plan: the whole trade of memory against time
  std::string dump;    // plan: write the plan as text
  std::string trace;   // profile: write the times of one step to this file
  int64_t top = 0;     // profile: so many single tasks
  bool all = false;    // inspect: everything
  bool graph = false;  // inspect: the graph as text
};

Optimiser make_optimiser(const Settings& settings);

// What is kept in 16 bits between its uses: results differ.
struct HalfStorage {
  bool values = false;  // that the backward pass reads again
  bool state = false;   // of the optimiser
  bool any() const { return values || state; }
};
// Throws Error(Usage) that names the known words.
HalfStorage parse_half_storage(const std::vector<std::string>& words);
// "values and optimiser state"
std::string to_string(const HalfStorage& half);

// What was asked for that changes results.
struct Changes {
  HalfStorage half;
  bool splits_norm = false;  // batch_norm takes each part of a batch for a batch
};

// What --without can switch off: the planner's levers, and what is done before it.
struct Allowed {
  Levers levers;
  bool masks = true;
  bool operator==(const Allowed&) const = default;
};
// Everything but these; throws Error(Usage) that names what is known.
Allowed parse_without(const std::vector<std::string>& without);

// Throws Error(Usage) that names what can be split.
void allow_split(Graph& graph, const std::vector<std::string>& ops);

// Where what does not fit in memory may go, and how much of it; an empty folder: nowhere.
struct Scratch {
  std::string folder;
  Bytes bytes = 0;
};
// Throws Error(Usage) when the folder or the limit makes no sense, Error(DiskFull) when nothing is left there.
Scratch resolve_scratch(const Settings& settings);

// The line in bytes, exactly, and where it comes from.
DefaultLine resolve_line(const Settings& settings);

}  // namespace plimsoll::cli
