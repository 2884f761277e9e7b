// Which variant each task takes: a fixed list of choices.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/problem.h"

namespace plimsoll::plan {

// By task: an index into Task::variants, -1 for its own work; empty: own work everywhere.
using Variants = std::vector<int32_t>;

// Own work everywhere first; then the first variant of every task that has one, the second of every task that has two.
std::vector<Variants> list_variants(const Problem& problem);

// The same tasks with the work that was chosen as their own.
Problem choose_variants(const Problem& problem, const Variants& variants);

}  // namespace plimsoll::plan
