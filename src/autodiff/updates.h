// How minimize, apply_gradients and accumulate build the updates of a step.
#pragma once

#include <functional>
#include <vector>

#include <plimsoll/optimiser.h>
#include "autodiff/sharding.h"

namespace plimsoll::ops {
struct OptimiserRule;
}

namespace plimsoll::autodiff {

// Throws Error for settings that contradict or make no sense.
void check(const Optimiser& optimiser);
const ops::OptimiserRule& rule_of(const Optimiser& optimiser);

// The weights given, or all of the graph; throws Error for one that can't be trained.
std::vector<Tensor> trained_weights(Graph& graph, std::span<const Tensor> weights);
// The gradients of the loss, times the seed when one is given; throws Error when there are none.
std::vector<Gradient> training_gradients(Tensor loss, std::span<const Tensor> weights, Tensor seed);
// Whether a layer added this node to keep its statistics.
bool is_statistics(const graph::Body& graph, NodeId id);
// Updates of statistics of the layers that the gradients come through.
std::vector<NodeId> find_statistics(const graph::Body& graph, std::span<const Gradient> gradients);

// Updates added while this lives happen only in steps where the guard, f32[], is not 0; unset: always.
class Guard {
 public:
  Guard(Graph& graph, Tensor guard);
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  graph::Body& graph_;
  const ValueId before_;
};
// Adds a copy of an update, under the guard that is in force.
NodeId add_again(graph::Body& graph, NodeId update);

// Loss scaling: its variables, in the scope "optimiser". All unset where the loss is not scaled.
struct LossScale {
  Tensor scale, finite_steps;
  bool is_set() const { return scale.is_set(); }
};
LossScale make_loss_scale(Graph& graph, const Optimiser& optimiser);
// 1 when all gradients are finite, else 0.
Tensor are_finite(std::span<const Gradient> gradients);

// "learning_rate" and "step" in the innermost scope.
Updates make_settings(Graph& graph, const Optimiser& optimiser);
// Where several ranks add up the squares of gradients one after another: `before` is the sum of the ranks before this
// one, `finish` turns the sum that includes this rank's into that of all. Both unset: there are no other ranks.
struct NormChain {
  Tensor before = {};
  std::function<Tensor(Tensor)> finish = {};
  std::vector<bool> counts = {};  // by weight: false for one that another rank counts; empty: all are counted
};
// Counts the step and updates each weight whose gradient is set. Gradients are multiplied by `factor` first, where that
// is set; clipping acts on the product.
void add_weight_updates(const Optimiser& optimiser, std::span<const Gradient> gradients,
                        std::span<const Tensor> weights, Tensor factor, Updates& updates, const NormChain& chain = {});
// The same where ranks share state, gradients or weights.
struct SharedUpdates {
  SharedTensors shared;
  std::vector<SharedVariable> variables;                // that were added
  std::function<Gradient(size_t)> whole_gradient = {};  // by weight; unset: the gradients are whole
};
void add_weight_updates(const Optimiser& optimiser, std::span<const Gradient> gradients,
                        std::span<const Tensor> weights, Tensor factor, Updates& updates, SharedUpdates& shared,
                        const NormChain& chain = {});

}  // namespace plimsoll::autodiff
