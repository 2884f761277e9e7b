#include "memory/default_line.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include <plimsoll/error.h>

namespace plimsoll::memory {
namespace {

struct Limit {
  Bytes bytes;
  std::string source;
};

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

// A whole number; nothing for an empty text or 0, an Error for anything else.
std::optional<int64_t> count(const std::string& text, const char* name) {
  if (text.empty()) return std::nullopt;
  int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < 0 || value > (int64_t(1) << 40))
    throw Error(fmt::format("{}='{}' is not a whole number; unset it, or give a line", name, text), ErrorKind::Usage);
  if (value == 0) return std::nullopt;
  return value;
}

std::vector<Limit> known_limits(const MemoryFacts& facts) {
  std::vector<Limit> limits;
  const auto per_node = count(facts.slurm_mem_per_node, "SLURM_MEM_PER_NODE");
  if (per_node) limits.push_back({*per_node * MiB, "Slurm's SLURM_MEM_PER_NODE"});
  const auto per_cpu = count(facts.slurm_mem_per_cpu, "SLURM_MEM_PER_CPU");
  const auto cpus = count(facts.slurm_cpus_on_node, "SLURM_CPUS_ON_NODE");
  if (per_cpu && cpus && *cpus < (1 << 20) && *per_cpu < (int64_t(1) << 22) * 64)
    limits.push_back({*per_cpu * *cpus * MiB, "Slurm's SLURM_MEM_PER_CPU x SLURM_CPUS_ON_NODE"});
  for (const CgroupMemory& group : facts.cgroups)
    limits.push_back({group.limit, fmt::format("the control group limit in {}", group.file)});
  const std::string key = "MemTotal:";
  if (const size_t at = facts.meminfo.find(key); at != std::string::npos)
    limits.push_back({std::strtoll(facts.meminfo.c_str() + at + key.size(), nullptr, 10) * KiB, "physical memory"});
  std::erase_if(limits, [](const Limit& limit) { return limit.bytes <= 0; });
  return limits;
}

}  // namespace

MemoryFacts gather_memory_facts(const std::string& root) {
  return {.plimsoll_memory = variable("PLIMSOLL_MEMORY"),
          .slurm_mem_per_node = variable("SLURM_MEM_PER_NODE"),
          .slurm_mem_per_cpu = variable("SLURM_MEM_PER_CPU"),
          .slurm_cpus_on_node = variable("SLURM_CPUS_ON_NODE"),
          .cgroups = cgroup_memory(root),
          .meminfo = read_small_file(root + "/proc/meminfo")};
}

DefaultLine default_line(const MemoryFacts& facts) {
  const std::vector<Limit> limits = known_limits(facts);
  const auto smallest =
      std::ranges::min_element(limits, [](const Limit& a, const Limit& b) { return a.bytes < b.bytes; });
  if (!facts.plimsoll_memory.empty()) {
    try {
      const Bytes bytes = parse_bytes(facts.plimsoll_memory, smallest == limits.end() ? 0 : smallest->bytes);
      return {bytes, fmt::format("PLIMSOLL_MEMORY={}", facts.plimsoll_memory)};
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}", facts.asked_with, error.what()), ErrorKind::Usage);
    }
  }
  if (smallest == limits.end())
    throw Error("no memory limit is known here; give a line, such as 2GiB", ErrorKind::Usage);
  // The reserve takes at most half of a tiny limit.
  const Bytes reserve = std::min(std::max(smallest->bytes / 10, 64 * MiB), smallest->bytes / 2);
  return {smallest->bytes - reserve, fmt::format("{} is {}, less a reserve of {}", smallest->source,
                                                 format_bytes(smallest->bytes), format_bytes(reserve))};
}

}  // namespace plimsoll::memory
