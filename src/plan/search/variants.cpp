#include "plan/search/variants.h"

#include <algorithm>

namespace plimsoll::plan {

std::vector<Variants> list_variants(const Problem& problem) {
  size_t most = 0;
  for (const Task& task : problem.tasks) most = std::max(most, task.variants.size());
  std::vector<Variants> choices(1 + most);
  for (size_t v = 0; v < most; ++v)
    for (const Task& task : problem.tasks)
      choices[1 + v].push_back(task.variants.size() > v ? static_cast<int32_t>(v) : -1);
  return choices;
}

Problem choose_variants(const Problem& problem, const Variants& variants) {
  Problem chosen = problem;
  for (size_t t = 0; t < variants.size(); ++t) {
    Task& task = chosen.tasks[t];
    if (variants[t] >= 0) static_cast<Work&>(task) = Work(task.variants[variants[t]]);
  }
  return chosen;
}

}  // namespace plimsoll::plan
