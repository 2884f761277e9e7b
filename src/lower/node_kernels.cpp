#include "lower/node_kernels.h"

#include <algorithm>

#include "lower/predict.h"

namespace plimsoll::lower {

NodeKernels KernelChooser::choose(const DraftNode& node, std::span<const kernels::ConcreteType> in,
                                  std::span<const kernels::ConcreteType> out, int64_t samples) {
  return choose(node, {*node.attrs, in, out, samples, sizes_.batch(), false}, false);
}

NodeKernels KernelChooser::choose_for_each(const DraftNode& node, std::span<const kernels::ConcreteType> in,
                                           std::span<const kernels::ConcreteType> out) {
  return choose(node, {*node.attrs, in, out, sizes_.samples(), sizes_.batch(), false}, true);
}

NodeKernels KernelChooser::choose(const DraftNode& node, kernels::Facts facts, bool for_each) {
  const kernels::Prepared& own = kernels_.prepare(*node.op, facts);
  NodeKernels chosen{own.in, own.out, with_later(node, facts, own, for_each), {}};
  if (node.op->traits.slim.empty()) return chosen;
  facts.slim = true;
  const kernels::Prepared& slim = kernels_.prepare(*node.op, facts);
  if (slim.in == own.in && slim.out == own.out) chosen.slim = with_later(node, facts, slim, for_each);
  return chosen;
}

ChosenKernels KernelChooser::with_later(const DraftNode& node, const kernels::Facts& facts,
                                        const kernels::Prepared& first, bool for_each) {
  ChosenKernels chosen{{first.kernel, cost_of(*node.op, facts)}, first.workspace_bytes};
  if (!for_each) return chosen;
  const bool adds = draft_.batch_rule(node) == BatchRule::Sums;
  if (adds) {
    kernels::Facts adding = facts;
    adding.accumulate = true;
    const kernels::Prepared& later = kernels_.prepare(*node.op, adding);
    is_possible_ = is_possible_ && later.in == first.in && later.out == first.out;
    chosen.workspace_bytes = std::max(chosen.workspace_bytes, later.workspace_bytes);
    chosen.kernels.later = later.kernel;
  }
  if (sizes_.last_samples() == 0) return chosen;
  const auto in_last = [&](const std::vector<ValueId>& values, std::span<const kernels::ConcreteType> types) {
    std::vector<kernels::ConcreteType> last;
    for (size_t i = 0; i < types.size(); ++i) last.push_back(sizes_.in_last(values[i], types[i]));
    return last;
  };
  const std::vector<kernels::ConcreteType> in = in_last(node.in, facts.in), out = in_last(node.out, facts.out);
  const kernels::Prepared& last =
      kernels_.prepare(*node.op, {*node.attrs, in, out, sizes_.last_samples(), sizes_.batch(), adds, facts.slim});
  is_possible_ = is_possible_ && agree(node.in, first.in, last.in) && agree(node.out, first.out, last.out);
  chosen.workspace_bytes = std::max(chosen.workspace_bytes, last.workspace_bytes);
  chosen.kernels.last = last.kernel;
  return chosen;
}

bool KernelChooser::agree(const std::vector<ValueId>& values, const std::vector<kernels::Layout>& first,
                          const std::vector<kernels::Layout>& last) const {
  if (first.size() != last.size()) return false;
  for (size_t i = 0; i < first.size(); ++i)
    if (!(sizes_.in_last(values[i], first[i]) == last[i])) return false;
  return true;
}

ChosenKernels KernelChooser::choose_reorder(ValueId value, const kernels::ConcreteType& from,
                                            const kernels::Layout& to) {
  const kernels::Prepared& own = kernels_.reorder(from, to);
  kernels::ConcreteType result = from;
  result.layout = to;
  ChosenKernels chosen{{own.kernel, cost_of_reorder(from.bytes(), result.bytes())}, own.workspace_bytes};
  if (!sizes_.is_batched(value) || sizes_.last_samples() == 0) return chosen;
  const kernels::Prepared& last = kernels_.reorder(sizes_.in_last(value, from), sizes_.in_last(value, to));
  chosen.kernels.last = last.kernel;
  chosen.workspace_bytes = std::max(chosen.workspace_bytes, last.workspace_bytes);
  return chosen;
}

}  // namespace plimsoll::lower
