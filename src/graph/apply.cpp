#include "graph/apply.h"

#include <array>
#include <vector>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "graph/body.h"
#include "graph/recorder.h"

namespace plimsoll::graph {
namespace {

void expect_one_owner(const Op& op, std::span<const Tensor> inputs) {
  if (inputs.empty()) throw Error(fmt::format("{}: has no input", op.name));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_set())
      throw Error(fmt::format("{}: input {} is unset; give it a tensor of the graph", op.name, i));
    if (inputs[i].is_eager() != inputs[0].is_eager())
      throw Error(
          fmt::format("{}: input {} is {}; eager code and a graph can't be mixed: feed a placeholder, or call "
                      "the function with the eager tensor as an argument",
                      op.name, i,
                      inputs[i].is_eager() ? "an eager tensor but the others belong to a graph"
                                           : "a tensor of a graph but the others are eager"));
    static_cast<void>(inputs[i].type());  // throws when its graph is gone
    if (inputs[i].owner() == inputs[0].owner()) continue;
    if (inputs[i].is_eager())
      throw Error(fmt::format("{}: input {} belongs to another Eager; copy its numbers out and in", op.name, i));
    throw Error(fmt::format("{}: input {} belongs to another graph; build all of a model in one graph", op.name, i));
  }
}

// The graph that is being traced, if `inputs` mix its tensors with eager ones; else null.
const Body* find_traced(std::span<const Tensor> inputs) {
  const Body* traced = nullptr;
  bool has_eager = false;
  for (const Tensor& input : inputs) {
    has_eager = has_eager || input.is_eager();
    const Body* const owner = input.is_eager() ? nullptr : input.owner();
    if (owner != nullptr && owner->capturer() != nullptr) traced = owner;
  }
  return has_eager ? traced : nullptr;
}

std::vector<Tensor> capture(std::span<const Tensor> inputs, const Body& traced) {
  std::vector<Tensor> captured;
  for (const Tensor& input : inputs)
    captured.push_back(input.is_eager() ? traced.capturer()->capture(*input.held()) : input);
  return captured;
}

Outputs add_node(Graph& graph, Recorder* recorder, const Op& op, std::span<const ValueId> inputs, const Attrs& attrs,
                 const Name& name) {
  const NodeId id = graph.body().add_node(op, inputs, attrs, name);
  const Node& node = graph.body().node(id);
  if (recorder != nullptr) recorder->after_apply(id, name.where());
  return {graph, id, node.first_output, node.outputs};
}

Outputs add_to_graph(const Op& op, std::span<const Tensor> inputs, const Attrs& attrs, const Name& name) {
  // Called before ids of values are read: a new recording may begin here.
  Recorder* const recorder = inputs[0].is_eager() ? inputs[0].held()->recorder : nullptr;
  if (recorder != nullptr) recorder->before_apply(op, attrs);
  expect_one_owner(op, inputs);
  Graph& graph = inputs[0].graph();
  constexpr size_t kFew = 12;
  std::array<ValueId, kFew> few;
  std::vector<ValueId> many(inputs.size() > kFew ? inputs.size() : 0);
  ValueId* const ids = many.empty() ? few.data() : many.data();
  for (size_t i = 0; i < inputs.size(); ++i) ids[i] = inputs[i].id();
  return add_node(graph, recorder, op, {ids, inputs.size()}, attrs, name);
}

}  // namespace

Outputs apply(const Op& op, std::span<const Tensor> inputs, const Attrs& attrs, Name name) {
  if (inputs.empty() || !inputs[0].is_set()) expect_one_owner(op, inputs);
  if (const Body* const traced = find_traced(inputs)) return add_to_graph(op, capture(inputs, *traced), attrs, name);
  return add_to_graph(op, inputs, attrs, name);
}

Outputs apply_in(Graph& graph, const Op& op, const Attrs& attrs, Name name) {
  Recorder* const recorder = graph.body().recorder();
  if (recorder != nullptr) recorder->before_apply(op, attrs);
  return add_node(graph, recorder, op, {}, attrs, name);
}

}  // namespace plimsoll::graph
