#include "cli/settings.h"

#include <fmt/format.h>

#include "base/error.h"

namespace plimsoll {

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
  return optimiser;
}

Levers parse_levers(const std::vector<std::string>& without) {
  Levers levers;
  const std::pair<std::string_view, bool*> known[] = {
      {"order", &levers.order},         {"in-place", &levers.in_place},       {"variants", &levers.variants},
      {"recompute", &levers.recompute}, {"micro-batch", &levers.micro_batch}, {"spill", &levers.spill}};
  for (const std::string& name : without) {
    bool found = false;
    for (const auto& [lever, on] : known) {
      if (name != lever) continue;
      *on = false;
      found = true;
    }
    if (!found)
      throw Error(
          fmt::format("lever '{}' is unknown; known are order, in-place, variants, recompute, micro-batch, spill",
                      name),
          ErrorKind::Usage);
  }
  return levers;
}

DefaultLine resolve_line(const Settings& settings) {
  const MemoryFacts facts = gather_memory_facts();
  if (settings.memory.empty()) return default_line(facts);
  // A share is one of what the surroundings allow.
  MemoryFacts asked = facts;
  asked.plimsoll_memory = settings.memory;
  return {default_line(asked).bytes, "as asked"};
}

}  // namespace plimsoll
