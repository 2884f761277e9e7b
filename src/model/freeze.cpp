#include "model/freeze.h"

#include <algorithm>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/graph.h>
#include "base/nearest.h"
#include "graph/body.h"

namespace plimsoll {
namespace {

bool fits_any(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) { return fits_pattern(p, name); });
}

bool is_models(const graph::Variable& variable) { return variable.role() != VariableRole::Optimiser; }

// A pattern that matches nothing is taken for a typing error.
void expect_matches(const graph::Body& graph, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    std::string some;
    bool is_used = false;
    int shown = 0;
    for (const graph::Variable& variable : graph.variables()) {
      if (!is_models(variable)) continue;
      is_used = is_used || fits_pattern(pattern, variable.stored->name);
      if (shown++ < 3) some += (some.empty() ? "" : ", ") + variable.stored->name;
    }
    if (!is_used)
      throw Error(fmt::format("no variable matches '{}', which is to say what is frozen; the variables are {}{}",
                              pattern, some, shown > 3 ? fmt::format(" and {} more", shown - 3) : ""),
                  ErrorKind::Usage);
  }
}

}  // namespace

bool Freeze::freezes(std::string_view name) const {
  if (is_empty() || fits_any(all_but, name)) return false;
  return patterns.empty() || fits_any(patterns, name);
}

namespace model {

std::vector<Tensor> list_trained(Graph& graph, const Freeze& freeze) {
  expect_matches(graph.body(), freeze.patterns);
  expect_matches(graph.body(), freeze.all_but);
  std::vector<Tensor> trained;
  for (const graph::Variable& variable : graph.body().variables())
    if (variable.role() == VariableRole::Weight && !freeze.freezes(variable.stored->name))
      trained.emplace_back(graph, variable.value);
  const auto is_frozen = [&](const graph::Variable& variable) {
    return is_models(variable) && freeze.freezes(variable.stored->name);
  };
  if (!freeze.is_empty() && std::ranges::none_of(graph.body().variables(), is_frozen))
    throw Error("nothing is frozen: each weight that is to be frozen is also one to train; give other patterns",
                ErrorKind::Usage);
  if (trained.empty())
    throw Error("there is nothing to train: all weights are frozen; freeze fewer of them", ErrorKind::Usage);
  return trained;
}

void drop_frozen_statistics(const Graph& graph, const Freeze& freeze, Updates& updates) {
  const graph::Body& body = graph.body();
  std::erase_if(updates.nodes, [&](NodeId id) {
    const graph::Node& node = body.node(id);
    if (!node.op->traits.statistics) return false;
    const std::span<const ValueId> inputs = body.inputs(node);
    for (size_t i = 0; i < inputs.size(); ++i)
      if ((node.op->traits.updates >> i & 1) != 0 && freeze.freezes(body.name(body.value(inputs[i])))) return true;
    return false;
  });
}

}  // namespace model
}  // namespace plimsoll
