#include "cli/settings.h"

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "memory/process.h"

namespace plimsoll::cli {

Optimiser make_optimiser(const Settings& settings) {
  Optimiser optimiser;
  if (settings.optimiser == "sgd")
    optimiser = Optimiser::sgd();
  else if (settings.optimiser == "adam")
    optimiser = Optimiser::adam();
  else if (settings.optimiser == "adamw")
    optimiser = Optimiser::adamw();
  else if (settings.optimiser == "rmsprop")
    optimiser = Optimiser::rmsprop();
  else
    throw Error(fmt::format("optimiser '{}' is unknown; known are sgd, adam, adamw, rmsprop", settings.optimiser),
                ErrorKind::Usage);
  if (settings.learning_rate > 0) optimiser.learning_rate = settings.learning_rate;
  if (settings.momentum > 0) optimiser.momentum = settings.momentum;
  if (settings.global_clip_norm > 0) optimiser.global_clip_norm = settings.global_clip_norm;
  optimiser.half_state = parse_half_storage(settings.half_storage).state;
  return optimiser;
}

HalfStorage parse_half_storage(const std::vector<std::string>& words) {
  HalfStorage half;
  for (const std::string& word : words) {
    if (word == "values")
      half.values = true;
    else if (word == "state")
      half.state = true;
    else
      throw Error(fmt::format("--half-storage '{}' is unknown; known are values, state", word), ErrorKind::Usage);
  }
  return half;
}

std::string to_string(const HalfStorage& half) {
  return half.values && half.state ? "values and optimiser state" : half.state ? "optimiser state" : "values";
}

Allowed parse_without(const std::vector<std::string>& without) {
  Allowed allowed;
  Levers& levers = allowed.levers;
  const std::pair<std::string_view, bool*> known[] = {
      {"order", &levers.order},         {"in-place", &levers.in_place},       {"variants", &levers.variants},
      {"recompute", &levers.recompute}, {"micro-batch", &levers.micro_batch}, {"spill", &levers.spill},
      {"masks", &allowed.masks},
  };
  for (const std::string& name : without) {
    bool found = name == "none";
    if (found) allowed = {};
    for (const auto& [lever, on] : known) {
      if (name != lever) continue;
      *on = false;
      found = true;
    }
    if (!found)
      throw Error(
          fmt::format(
              "lever '{}' is unknown; known are order, in-place, variants, recompute, micro-batch, spill, masks", name),
          ErrorKind::Usage);
  }
  return allowed;
}

void allow_split(Graph& graph, const std::vector<std::string>& ops) {
  for (const std::string& op : ops) {
    if (op != "batch_norm")
      throw Error(fmt::format("--split '{}' is unknown; what mixes samples and can be split is batch_norm", op),
                  ErrorKind::Usage);
    graph.allow_split(op);
  }
}

Scratch resolve_scratch(const Settings& settings) {
  constexpr Bytes kLeftFree = GiB;  // a full disk disturbs others
  constexpr Bytes kLeast = MiB;
  if (settings.scratch.empty()) {
    if (settings.disk_limit.empty()) return {};
    throw Error("--disk-limit says how large the scratch file may be; say where it may be made with --scratch DIR",
                ErrorKind::Usage);
  }
  if (!parse_without(settings.without).levers.spill) return {};
  const Bytes free = available_disk_bytes(settings.scratch);
  if (is_memory_backed(settings.scratch))
    throw Error(fmt::format("'{}' is a folder in memory (tmpfs): what is put aside there still takes memory; give a "
                            "folder on a disk with --scratch DIR",
                            settings.scratch),
                ErrorKind::Usage);
  if (settings.disk_limit.empty()) {
    if (free > kLeftFree + kLeast) return {settings.scratch, free - kLeftFree};
    throw Error(fmt::format("'{}' has {} free, of which {} stay free; give another folder with --scratch DIR, or say "
                            "how much may be used with --disk-limit",
                            settings.scratch, format_bytes(free), format_bytes(kLeftFree)),
                ErrorKind::DiskFull);
  }
  const Bytes limit = parse_bytes(settings.disk_limit, free);
  if (limit < kLeast)
    throw Error(fmt::format("--disk-limit {} is too small for a scratch file; give at least {}, or --without spill",
                            settings.disk_limit, format_bytes(kLeast)),
                ErrorKind::Usage);
  if (limit > free)
    throw Error(fmt::format("--disk-limit {} is more than the {} that are free in '{}'", settings.disk_limit,
                            format_bytes(free), settings.scratch),
                ErrorKind::Usage);
  return {settings.scratch, limit};
}

DefaultLine resolve_line(const Settings& settings) {
  const MemoryFacts facts = gather_memory_facts();
  if (settings.memory.empty()) return default_line(facts);
  // A share is one of what the surroundings allow.
  MemoryFacts asked = facts;
  asked.plimsoll_memory = settings.memory;
  asked.asked_with = "--memory";
  return {default_line(asked).bytes, "as asked"};
}

}  // namespace plimsoll::cli
