#include "ops/updates/rule.h"

#include <cmath>

#include <fmt/format.h>

#include "kernels/update.h"

namespace plimsoll::ops {

double RuleSettings::operator[](std::string_view name) const {
  for (const RuleSetting& setting : all_)
    if (setting.first == name) return setting.second;
  throw Error(fmt::format("{} has no setting '{}'", optimiser_, name));
}

void RuleSettings::fail(const std::string& what) const { throw Error("optimiser: " + what, ErrorKind::Usage); }

void RuleSettings::expect(bool holds, std::string_view name, std::string_view what) const {
  if (!holds) fail(fmt::format("{} must be {} but is {}", name, what, (*this)[name]));
}

void RuleSettings::expect_positive(std::string_view name) const {
  const double value = (*this)[name];
  expect(std::isfinite(value) && value > 0, name, "positive");
}

void RuleSettings::expect_at_least_zero(std::string_view name) const {
  const double value = (*this)[name];
  expect(std::isfinite(value) && value >= 0, name, "zero or more");
}

void RuleSettings::expect_below_one(std::string_view name) const {
  const double value = (*this)[name];
  expect(value >= 0 && value < 1, name, "at least 0 and below 1");
}

Gradient WeightUpdate::dense_gradient() const {
  return gradient.is_sparse() ? Gradient{scatter_rows(gradient.value, gradient.rows, weight.shape()), {}} : gradient;
}

void WeightUpdate::take(std::initializer_list<std::string_view> names) {
  for (const std::string_view each : names) attrs.set(each, settings[each]);
}

NodeId WeightUpdate::add(const Op& op, std::vector<Tensor> updated, bool counts) const {
  return add_update(op, updated, gradient, rate, counts ? step : Tensor(), factor, attrs, name);
}

std::span<const OptimiserRule* const> all_rules() {
  static const std::vector<const OptimiserRule*> kAll{
#define OPTIMISER(name, description, ...) &name##_rule(),
#define VARIANT(base, name, description, ...)
#include <plimsoll/optimisers.inc>
#undef OPTIMISER
#undef VARIANT
  };
  return kAll;
}

const OpList& update_ops() {
  static const OpList kAll = [] {
    OpList all;
    const auto append = [&](const OpList& ops) { all.insert(all.end(), ops.begin(), ops.end()); };
#define OPTIMISER(name, description, ...) append(name##_ops());
#define VARIANT(base, name, description, ...)
#include <plimsoll/optimisers.inc>
#undef OPTIMISER
#undef VARIANT
    return all;
  }();
  return kAll;
}

}  // namespace plimsoll::ops
