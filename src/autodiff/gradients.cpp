#include "autodiff/gradients.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/optimiser.h>
#include "graph/body.h"
#include "graph/recorder.h"
#include "ops/ops.h"

namespace plimsoll::autodiff {
namespace {

using graph::Body;
using graph::Node;

constexpr NodeId kNever = std::numeric_limits<NodeId>::max();

// From which node on a value depends on one of `wrt`, by value: gradients are made for its uses from there on. A tensor
// of `wrt` counts from where watching it begins, what is computed from one always.
std::vector<NodeId> reached_from(const Body& graph, std::span<const Tensor> wrt, const Watched& watched) {
  std::vector<NodeId> reached(graph.values().size(), kNever);
  for (size_t i = 0; i < wrt.size(); ++i) {
    NodeId& from = reached[static_cast<size_t>(wrt[i].id())];
    from = std::min(from, watched.since.empty() ? watched.first_node : std::max(watched.first_node, watched.since[i]));
  }
  const auto end = static_cast<NodeId>(graph.nodes().size());
  for (NodeId id = watched.first_node; id < end; ++id) {
    const Node& node = graph.node(id);
    bool any = false;
    for (const ValueId input : graph.inputs(node)) any = any || reached[static_cast<size_t>(input)] <= id;
    if (!any) continue;
    for (int i = 0; i < node.outputs; ++i) reached[static_cast<size_t>(node.first_output + i)] = watched.first_node;
  }
  return reached;
}

// Nodes made while this lives are those of the backward pass.
class BackwardPass {
 public:
  explicit BackwardPass(Body& graph) : graph_(graph), before_(graph.set_backward(true)) {}
  ~BackwardPass() { graph_.set_backward(before_); }
  BackwardPass(const BackwardPass&) = delete;
  BackwardPass& operator=(const BackwardPass&) = delete;

 private:
  Body& graph_;
  const bool before_;
};

class Differentiator {
 public:
  Differentiator(Graph& graph, std::span<const Tensor> wrt, const Watched& watched)
      : graph_(graph),
        body_(graph.body()),
        first_node_(watched.first_node),
        reached_(reached_from(body_, wrt, watched)),
        grads_(body_.values().size()) {}

  void start(Tensor loss, Tensor seed) { grads_[static_cast<size_t>(loss.id())] = {seed, {}}; }

  void walk_back() {
    // Nodes that gradients add come after these and are not walked.
    for (auto id = static_cast<NodeId>(body_.nodes().size()) - 1; id >= first_node_; --id) visit(id);
  }

  Gradient grad(Tensor tensor) const { return grads_[static_cast<size_t>(tensor.id())]; }

 private:
  void visit(NodeId id) {
    const Node node = body_.node(id);  // a copy: the list grows while gradients are added
    bool flows = false;
    for (int i = 0; i < node.outputs; ++i) flows = flows || grads_[static_cast<size_t>(node.first_output + i)].is_set();
    if (!flows) return;
    std::vector<Tensor> x, y, dy;
    for (int i = 0; i < node.outputs; ++i) {
      y.emplace_back(graph_, node.first_output + i);
      const Gradient& g = grads_[static_cast<size_t>(node.first_output + i)];
      dy.push_back(g.is_sparse() ? densify(g, y.back().shape()) : g.value);
    }
    std::vector<bool> wanted;
    std::vector<Tensor> inputs;
    bool any = false;
    for (const ValueId input : body_.inputs(node)) {
      inputs.emplace_back(graph_, input);
      wanted.push_back(reached_[static_cast<size_t>(input)] <= id && is_float(inputs.back().dtype()));
      any = any || wanted.back();
    }
    if (!any) return;
    for (const Tensor& input : inputs) x.push_back(gathered_again(input));
    if (node.op->grad == nullptr)
      throw Error(
          fmt::format("'{}' has no gradient (operator {}); leave it out of the loss", body_.name(node), node.op->name));
    const graph::Attrs attrs = body_.attrs(node);
    graph::Backward backward{attrs, x, y, dy, wanted, std::vector<Gradient>(x.size())};
    {
      std::optional<Scope> scope;  // nodes of a recording have no names
      if (body_.recorder() == nullptr) scope.emplace(graph_, std::string(body_.name(node)) + "/backward");
      node.op->grad(backward);
      for (size_t i = 0; i < x.size(); ++i)
        if (wanted[i] && backward.dx[i].is_set()) accumulate(inputs[i], backward.dx[i]);
    }
  }

  // A weight whose slices ranks hold is gathered again for the backward pass, so that nobody holds it until then.
  Tensor gathered_again(Tensor value) {
    const NodeId producer = body_.value(value.id()).producer;
    if (producer < 0 || !body_.node(producer).op->traits.exchanges) return value;
    if (body_.attrs(body_.node(producer)).i("slices", 0) == 0) return value;
    Tensor& again = gathered_[value.id()];
    if (!again.is_set()) {
      const Node node = body_.node(producer);
      const std::span<const ValueId> from = body_.inputs(node);
      const std::vector<ValueId> inputs(from.begin(), from.end());  // a copy: the list grows
      const NodeId added = body_.add_node(*node.op, inputs, body_.attrs(node), {});
      again = {graph_, body_.node(added).first_output};
    }
    return again;
  }

  // A gradient has the type of its value: where types mix, the rules give the wider one.
  void accumulate(Tensor x, Gradient more) {
    more.value = cast(more.value, x.dtype());
    Gradient& sum = grads_[static_cast<size_t>(x.id())];
    if (!sum.is_set()) {
      sum = more;
      return;
    }
    sum = {add(densify(sum, x.shape()), densify(more, x.shape())), {}};
  }

  Graph& graph_;
  Body& body_;
  const NodeId first_node_;
  std::vector<NodeId> reached_;  // by value: from which node on
  std::vector<Gradient> grads_;
  std::map<ValueId, Tensor> gathered_;
};

}  // namespace

Tensor densify(const Gradient& gradient, const Shape& table) {
  return gradient.is_sparse() ? ops::scatter_rows(gradient.value, gradient.rows, table) : gradient.value;
}

std::vector<Gradient> differentiate(Tensor loss, std::span<const Tensor> wrt, Tensor seed, const Watched& watched) {
  Graph& graph = loss.graph();
  if (!is_float(loss.dtype()))
    throw Error(
        fmt::format("'{}' is {} and has no gradient; compute the loss in f32", loss.name(), to_string(loss.type())));
  for (const Tensor& tensor : wrt)
    if (tensor.owner() != loss.owner())
      throw Error("gradients: a tensor is unset or belongs to another graph than the loss");
  const graph::Composing composing(graph);
  const BackwardPass pass(graph.body());
  if (!seed.is_set()) {
    if (!(element_count(loss.shape()) == Dim(1)))
      throw Error(fmt::format("the loss '{}' must be a single number but is {}; take its mean or sum first",
                              loss.name(), to_string(loss.type())));
    seed = reshape(graph.scalar(1), loss.shape());
  } else if (seed.owner() != loss.owner() || !(seed.shape() == loss.shape())) {
    throw Error(fmt::format("gradients: the seed must be a tensor of the loss's graph with its shape {}",
                            to_string(loss.shape())));
  }
  seed = cast(seed, loss.dtype());
  // id() enters an eager tensor into the recording, which must not happen while nodes are walked.
  static_cast<void>(loss.id());
  for (const Tensor& tensor : wrt) static_cast<void>(tensor.id());
  Differentiator differentiator(graph, wrt, watched);
  differentiator.start(loss, seed);
  differentiator.walk_back();
  std::vector<Gradient> result;
  for (const Tensor& tensor : wrt) result.push_back(differentiator.grad(tensor));
  return result;
}

std::vector<Gradient> differentiate_from(std::span<const Seed> seeds, std::span<const Tensor> wrt,
                                         const Watched& watched) {
  if (seeds.empty()) return std::vector<Gradient>(wrt.size());
  Graph& graph = seeds[0].of.graph();
  const graph::Composing composing(graph);
  const BackwardPass pass(graph.body());
  Differentiator differentiator(graph, wrt, watched);
  for (const Seed& seed : seeds) differentiator.start(seed.of, seed.gradient);
  differentiator.walk_back();
  std::vector<Gradient> result;
  for (const Tensor& tensor : wrt) result.push_back(differentiator.grad(tensor));
  return result;
}

}  // namespace plimsoll::autodiff

namespace plimsoll {

std::vector<Gradient> gradients(Tensor loss, std::span<const Tensor> wrt, Tensor seed) {
  return autodiff::differentiate(loss, wrt, seed, {});
}

}  // namespace plimsoll
