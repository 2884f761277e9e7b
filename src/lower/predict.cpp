#include "lower/predict.h"

#include <algorithm>

namespace plimsoll {

Cost cost_of(const Op& op, const Facts& facts) {
  Cost cost = op.cost != nullptr ? op.cost(facts) : Cost{};
  if (cost.bytes > 0) return cost;
  cost.bytes = facts.operand_bytes();
  for (size_t i = 0; i < facts.in.size(); ++i)
    if ((op.traits.updates >> i & 1) != 0) cost.bytes += static_cast<double>(facts.in[i].bytes());
  return cost;
}

Cost cost_of_reorder(Bytes from, Bytes to) { return {.bytes = static_cast<double>(from + to)}; }

double predict_ns(const Cost& cost, const MachineSpeed& speed) {
  const double compute_s = cost.flops / (cost.efficiency * speed.flops_per_s);
  const double move_s = cost.bytes / speed.bytes_per_s;
  return speed.task_ns + std::max(compute_s, move_s) * 1e9;
}

}  // namespace plimsoll
