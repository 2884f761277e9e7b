// map: one element of each, by several threads that write straight into the consumer's rows, in order.
#pragma once

#include <functional>
#include <string>

#include "input/recipe.h"

namespace plimsoll::input {

struct MapSpec {
  ElementSpec element = {};                                      // of what is written
  std::function<RandomMapFunction(MemoryLine& line)> make = {};  // the function of one thread
  uint64_t seed = 0;
  int threads = 1;         // or AUTOTUNE
  Bytes thread_bytes = 0;  // what `make` and the function take
  std::string text = {};
};

RecipePtr make_map(const RecipePtr& input, MapSpec spec);

}  // namespace plimsoll::input
