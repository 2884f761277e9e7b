#include "lower/predict.h"

#include <algorithm>

namespace plimsoll::lower {

graph::Cost cost_of(const graph::Op& op, const kernels::Facts& facts) {
  graph::Cost cost = op.cost != nullptr ? op.cost(facts) : graph::Cost{};
  if (cost.bytes <= 0) cost.bytes = facts.operand_bytes();
  return cost;
}

// A reorder moves blocks of a few elements, which is slower than a copy.
graph::Cost cost_of_reorder(Bytes from, Bytes to) { return {.bytes = 1.5 * static_cast<double>(from + to)}; }

double predict_ns(const graph::Cost& cost, const MachineSpeed& speed) {
  const double compute_s = cost.flops / (cost.efficiency * speed.flops_per_s);
  const double move_s = cost.bytes / (cost.bytes > speed.cache_bytes ? speed.bytes_per_s : speed.cache_bytes_per_s);
  return speed.task_ns + std::max(compute_s, move_s) * 1e9;
}

LinearTime line_through(int64_t samples, double ns, int64_t fewer, double fewer_ns) {
  if (fewer == samples) return {.fixed_ns = ns};
  const auto batch = static_cast<double>(samples);
  const double slope = (ns - std::min(fewer_ns, ns)) / static_cast<double>(samples - fewer);
  const double per_sample_ns = std::min(slope, ns / batch);
  return {.fixed_ns = std::max(0.0, ns - per_sample_ns * batch), .per_sample_ns = per_sample_ns};
}

}  // namespace plimsoll::lower
