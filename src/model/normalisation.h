// What normalises the inputs of a model: means and deviations that can be used.
#pragma once

#include <string>
#include <vector>

namespace plimsoll::model {

// Why these can't be used; empty: they can. Numbers are finite, deviations above 0 and not so small that the result
// overflows.
std::string normalisation_fault(const std::vector<float>& mean, const std::vector<float>& deviation);

}  // namespace plimsoll::model
