// What to do when a training does not fit: each way was planned before it is named, and has its price.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <plimsoll/error.h>
#include "cli/workload.h"

namespace plimsoll::cli {

struct Remedy {
  std::string flags;             // to put behind the command that was refused
  std::string what;              // in words
  double slowdown = 1;           // predicted time for a sample, against the same step without a line
  bool changes_results = false;  // another batch or optimiser; parts and the disk do not count
  bool is_lossy = false;         // numbers are kept in 16 bits
  Bytes scratch_file_bytes = 0;
};

// Those that keep results first, and then by price. Starts no further planning after a few seconds.
// The same with a smallest line that a plan was made under: what is named is accepted.
Refusal verify_smallest_line(const Settings& settings, Purpose purpose, Refusal refusal);

std::vector<Remedy> find_remedies(const Settings& settings, Purpose purpose, const Refusal& refused);

std::string remedies_text(const std::vector<Remedy>& remedies);
nlohmann::json remedies_json(const std::vector<Remedy>& remedies);

}  // namespace plimsoll::cli
