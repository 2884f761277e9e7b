// What ranks should share: planned for each kind, compared over all ranks.
#pragma once

#include <optional>
#include <string>

#include "train/spec.h"

namespace plimsoll::forecast {

struct ShardingChoice {
  std::optional<Sharding> found;  // the fastest that fits the line of every rank
  std::string reason;             // what each kind would take
};

// All ranks call it, and get the same answer. Kinds before `first` are not tried.
ShardingChoice choose_sharding(const train::Spec& spec, Sharding first, const StopQuestion& is_stop_asked);

}  // namespace plimsoll::forecast
