#include "autodiff/sharding.h"

#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/graph.h>
#include "autodiff/updates.h"
#include "ops/updates/rule.h"

namespace plimsoll::autodiff {

Tensor ExchangeBuffer::in(Graph& graph) {
  if (!turn.is_set()) turn = graph.variable("received", DType::F32, {elements}, Init::zeros(), VariableRole::Gradient);
  return turn;
}

bool SharedTensors::has(Sharding kind, const Shape& shape) const {
  return ranks > 1 && sharding >= kind && element_count(shape).fixed() >= kLeastShared;
}

const SharedWeight* SharedTensors::find(Tensor weight) const {
  if (!weights) return nullptr;
  const auto found = std::ranges::find(weights->all, weight, &SharedWeight::slice);
  return found == weights->all.end() ? nullptr : &*found;
}

Shape SharedTensors::shape_of(Tensor weight) const {
  const SharedWeight* const found = find(weight);
  return found != nullptr ? found->whole : weight.shape();
}

void expect_shareable(const Optimiser& optimiser, const SharedTensors& shared) {
  if (shared.sharding == Sharding::None || shared.ranks == 1) return;
  if (const ops::OptimiserRule& rule = rule_of(optimiser); !rule.whole_state.empty())
    throw Error(
        fmt::format("the state of {} {}, so that ranks can't share it; train with another optimiser, or without "
                    "sharding",
                    rule.name, rule.whole_state),
        ErrorKind::Usage);
  if (optimiser.state_bits == 8)
    throw Error(
        "optimiser state of 8 bits is kept in blocks that ranks can't share; keep it in 16 or 32 bits, or train "
        "without "
        "sharding",
        ErrorKind::Usage);
}

}  // namespace plimsoll::autodiff
