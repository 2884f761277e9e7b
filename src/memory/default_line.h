// The line when the user gives none: the smallest limit of the environment, and the reason in a sentence.
#pragma once

#include <string>
#include <vector>

#include <plimsoll/types.h>
#include "memory/cgroup.h"

namespace plimsoll::memory {

// As found in the environment and in files; empty where there is nothing.
struct MemoryFacts {
  std::string plimsoll_memory = {};            // PLIMSOLL_MEMORY, a size as people write it
  std::string asked_with = "PLIMSOLL_MEMORY";  // where that size really came from
  std::string slurm_mem_per_node = {};         // SLURM_MEM_PER_NODE, in MiB; 0 means all of the node
  std::string slurm_mem_per_cpu = {};          // SLURM_MEM_PER_CPU, in MiB
  std::string slurm_cpus_on_node = {};         // SLURM_CPUS_ON_NODE
  std::vector<CgroupMemory> cgroups = {};
  std::string meminfo = {};  // /proc/meminfo
};

struct DefaultLine {
  Bytes bytes = 0;
  std::string reason;
};

MemoryFacts gather_memory_facts(const std::string& root = "");

// PLIMSOLL_MEMORY decides alone (a percentage is one of the smallest limit). Otherwise the smallest limit less a tenth,
// at least 64 MiB, for memory that is not counted. Throws Error when a variable is no size or nothing is known.
DefaultLine default_line(const MemoryFacts& facts);

}  // namespace plimsoll::memory
