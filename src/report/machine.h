// What this machine offers, and what the process itself costs before any model.
#pragma once

#include <string>

#include "memory/default_line.h"
#include "memory/kept_facts.h"
#include "report/plan_report.h"

namespace plimsoll::report {

struct MachineFacts {
  // The most that the process should take before any model.
  static constexpr Bytes kFixedCostGoal = 20 * MiB;

  std::string version;  // of the engine
  std::string kernels;  // library and vectors that do the work
  int threads = 0;
  int processors = 0;
  Bytes fixed_cost_bytes = 0;  // of the process with its libraries and threads up
  Bytes charged_bytes = 0;     // what a line holds for it
  Bytes available_bytes = 0;   // that could be taken now
  memory::DefaultLine line;
  bool has_huge_pages = false;
  std::string scratch_folder;
  Bytes scratch_free_bytes = 0;
  bool scratch_is_disk = false;  // false: a folder in memory
  memory::KeptDiskSpeed scratch_speed;
  std::string speeds_kept_in;  // file; empty: nowhere
  bool costs_too_much() const { return fixed_cost_bytes > kFixedCostGoal; }
};

// Brings up what every run needs and measures it. `measures_disk`: the disk's speed is measured again and kept.
MachineFacts gather_machine_facts(const std::string& version, const memory::DefaultLine& line,
                                  const std::string& scratch_folder, bool measures_disk);

std::string machine_text(const MachineFacts& facts);
std::string machine_json(const MachineFacts& facts, int indent = kOneLine);

}  // namespace plimsoll::report
