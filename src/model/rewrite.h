// A traced model: passes that are graphs, and their replay into a graph that is being built. A rewrite changes nodes
// and variables during the replay, which makes another model.
//
//   auto traced = std::make_shared<const TracedModel>(trace(find_model("lenet")));
//   Rewrite rewrite;
//   rewrite.node = [](ReplayedNode& node) -> std::optional<std::vector<Tensor>> {
//     if (node.op().name != "relu") return std::nullopt;   // as it was
//     return std::vector<Tensor>{gelu(node.inputs[0])};    // another
//   };
//   Model net = replay_model(traced, rewrite);
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <plimsoll/model.h>
#include "graph/body.h"

namespace plimsoll::model {

using NamedValues = std::vector<std::pair<std::string, ValueId>>;

// A position in a graph, in program order.
struct GraphPlace {
  NodeId nodes = 0;
  ValueId values = 0;
  bool operator==(const GraphPlace&) const = default;
};
GraphPlace end_of(const graph::Body& graph);

// A piece of a graph, from `begin` to `end` in program order. It reads its inputs, its own values, and variables and
// constants of the whole graph.
struct TracedPass {
  std::shared_ptr<const Graph> graph;
  std::string scope;            // names that begin so lose it: "lenet/"
  NamedValues inputs, outputs;  // by the names that the model has for them
  GraphPlace begin, end;
};

// An objective as a pass: from the outputs of the model and the targets to the loss and the sums of metrics.
constexpr const char* kLossName = "loss";
constexpr const char* kTargetPrefix = "target:";  // of the names of targets, which may be those of outputs
std::string sum_name(size_t number);              // "sum_0"

struct TracedModel {
  std::string name;
  TracedPass inference;
  std::optional<TracedPass> training = {};  // none: the model can't be trained
  std::optional<TracedPass> objective = {}, training_objective = {};

  NamedValues targets() const;  // of the objective, without that prefix
};

// A node that is about to be replayed. A rewrite may change its fields, which count when the node is then replayed.
struct ReplayedNode {
  const TracedPass& pass;
  NodeId id;                   // in the traced graph
  Graph& graph;                // that is built
  std::string name;            // relative to the model: "conv2d_1/conv2d"
  graph::Attrs attrs;          // at the batch of the graph that is built
  std::vector<Tensor> inputs;  // of the graph that is built; unset: a variable that the rewrite left out

  const graph::Op& op() const { return *node().op; }
  const graph::Node& node() const { return pass.graph->body().node(id); }
  // The value that an input is in the traced graph, and its name relative to the model ("conv2d_1/kernel").
  const graph::Value& traced_input(size_t number) const;
  std::string input_name(size_t number) const;
  // Adds the node as it stands here; returns its outputs.
  std::vector<Tensor> replay() const;
};

// A variable that is about to be declared.
struct ReplayedVariable {
  Graph& graph;      // that is built
  std::string name;  // relative to the model: "conv2d_1/kernel"
  const StoredVariable& stored;
};

// Changes during a replay. Tensors are made in `graph`, within the scope of the model: variables by Graph::variable.
struct Rewrite {
  // Returns a tensor instead of that variable, such as one that is expanded from a smaller form. An unset tensor leaves
  // the variable out; all nodes that read it must then be replaced. nullopt: the variable as it is.
  std::function<std::optional<Tensor>(const ReplayedVariable&)> variable = {};
  // Returns as many outputs instead of those of that node. nullopt: the node, with what was changed in it.
  std::function<std::optional<std::vector<Tensor>>(ReplayedNode&)> node = {};
};

// Adds the pass to the graph of the inputs, node by node through apply, and returns its outputs. The inputs have the
// traced types, but for the batch, which may be a number (as in eager code). Variables keep their names relative to the
// scope in which this is called, their roles and initial values; values die with their last use. Throws Error.
NamedTensors replay(const TracedPass& pass, const NamedTensors& inputs, const Rewrite& rewrite = {});

// Both passes of a model, with the objectives where the spec has one. Inputs have the types that the model takes, after
// `prepare`.
enum class Passes { All, Inference };
TracedModel trace(const ModelSpec& spec, Passes passes = Passes::All);

// A model whose function replays the passes. One without a training pass refuses to be trained.
Model replay_model(std::shared_ptr<const TracedModel> traced, Rewrite rewrite = {});

// A copy of the spec with that model: inputs, targets and objectives are those of the trace, the rest stays.
ModelSpec replay_spec(const ModelSpec& spec, const std::shared_ptr<const TracedModel>& traced,
                      const Rewrite& rewrite = {});

// The model after a rewrite, traced: what is saved, or rewritten once more.
TracedModel rewrite(const ModelSpec& spec, const Rewrite& rewrite, Passes passes = Passes::All);

}  // namespace plimsoll::model
