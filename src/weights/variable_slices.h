// Variables of which each of several ranks holds a slice: how they are recognised, read and written as whole ones.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <plimsoll/graph.h>
#include "kernels/network.h"
#include "kernels/rank_slices.h"
#include "weights/weights_reader.h"

namespace plimsoll::weights {

struct VariableSlices {
  kernels::Network* network = nullptr;             // null: no rank shares anything
  std::map<std::string, Dims, std::less<>> whole;  // by name: the sizes of the whole variable

  bool is_empty() const { return whole.empty(); }
  int rank() const { return network != nullptr ? network->rank() : 0; }
  int ranks() const { return network != nullptr ? network->size() : 1; }
  // Null: the variable is no slice.
  const Dims* find(std::string_view name) const {
    const auto found = whole.find(name);
    return found == whole.end() ? nullptr : &found->second;
  }
  // Elements of a variable that a rank holds; the whole one where it is no slice.
  kernels::RankSlice of_rank(int rank, std::string_view name, const Dims& own) const {
    const Dims* const all = find(name);
    if (all == nullptr) return {0, element_count(own)};
    return kernels::slice_of_rank(element_count(*all), element_count(own), rank);
  }
};

}  // namespace plimsoll::weights
