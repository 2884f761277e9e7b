// An optimiser: the state that it keeps for a weight, and the update that it adds. Each has one file in ops/updates and
// one line in <plimsoll/optimisers.inc>.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/ops.h"

namespace plimsoll::ops {

// The settings of its own, all of them, by name; yes and no are 1 and 0.
using RuleSetting = std::pair<std::string_view, double>;
class RuleSettings {
 public:
  RuleSettings(std::string_view optimiser, std::span<const RuleSetting> all) : optimiser_(optimiser), all_(all) {}
  double operator[](std::string_view name) const;
  bool is(std::string_view name) const { return (*this)[name] != 0; }
  // Each throws Error(Usage) that names the setting.
  void expect_positive(std::string_view name) const;
  void expect_at_least_zero(std::string_view name) const;
  void expect_below_one(std::string_view name) const;  // and at least 0
  [[noreturn]] void fail(const std::string& what) const;
  void expect(bool holds, std::string_view name, std::string_view what) const;

 private:
  std::string_view optimiser_;
  std::span<const RuleSetting> all_;
};

// The update of one weight while it is built.
struct WeightUpdate {
  Tensor weight;
  Gradient gradient;
  Tensor rate, step;
  Tensor factor;  // multiplies the gradient; unset: 1
  const RuleSettings& settings;
  // Of the operator: decay, clipping, slices. A rule adds settings of its own.
  Attrs attrs;
  std::string name;
  int state_bits;
  // A variable of the weight's shape, kept as the optimiser's settings say: in 16 bits, as a slice.
  std::function<Tensor(std::string_view name, const Init& init)> make_state;
  // One of any type and shape, whole on every rank.
  std::function<Tensor(std::string_view name, DType dtype, const Shape& shape)> make_whole;

  // Updates of state that come before the node.
  std::vector<NodeId> before = {};

  Tensor state(std::string_view state_name) const { return make_state(state_name, Init::zeros()); }
  Tensor state(std::string_view state_name, double start) const {
    return make_state(state_name, Init::constant(start));
  }
  Gradient dense_gradient() const;
  // Settings of the rule that become settings of the operator, each under its own name.
  void take(std::initializer_list<std::string_view> names);
  // The node: `updated` are the weight and its state; `counts` where the operator reads the step.
  NodeId add(const Op& op, std::vector<Tensor> updated, bool counts) const;
};

struct OptimiserRule {
  std::string_view name;
  void (*check)(const RuleSettings&) = nullptr;  // throws Error(Usage); null: any setting will do
  NodeId (*add)(WeightUpdate&) = nullptr;
  bool (*keeps_state)(const RuleSettings&) = nullptr;  // null: it does
  // Why state is never kept in 16 bits or as slices; empty: it is, element by element.
  std::string_view whole_state = {};
  bool has_byte_state = false;  // state_bits = 8 is possible
};

#define OPTIMISER(name, description, ...) \
  OpList name##_ops();                    \
  const OptimiserRule& name##_rule();
#define VARIANT(base, name, description, ...)
#include <plimsoll/optimisers.inc>
#undef OPTIMISER
#undef VARIANT

// In the order of the list.
std::span<const OptimiserRule* const> all_rules();
// The operators of optimisers.
const OpList& update_ops();

}  // namespace plimsoll::ops
