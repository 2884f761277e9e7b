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

DefaultLine resolve_line(const Settings& settings) {
  const MemoryFacts facts = gather_memory_facts();
  if (settings.memory.empty()) return default_line(facts);
  // A share is one of what the surroundings allow.
  MemoryFacts asked = facts;
  asked.plimsoll_memory = settings.memory;
  return {default_line(asked).bytes, "as asked"};
}

}  // namespace plimsoll
