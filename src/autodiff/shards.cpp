#include "autodiff/shards.h"

#include <algorithm>
#include <bit>
#include <ranges>

#include <fmt/format.h>

#include "autodiff/gradients.h"
#include "autodiff/updates.h"
#include "graph/body.h"
#include "kernels/rank_slices.h"
#include "kernels/sum_over_ranks.h"
#include "ops/ops.h"

namespace plimsoll::autodiff {
namespace {

// The sums over shards for one gradient or statistic: that of the newest shard, then one for each level of the tree.
struct Register {
  Tensor newest;
  std::vector<Tensor> levels;
  Gradient added;
  Tensor like;
  Shape whole;
  bool is_slice = false;
};

class Builder {
 public:
  Builder(Graph& graph, int levels, const SharedTensors& shared)
      : graph_(graph), levels_(static_cast<size_t>(levels)), shared_(shared) {
    samples_ = graph.variable("shard_samples", DType::F32, {}, Init::zeros(), VariableRole::Gradient);
    result.merges.resize(levels_);
  }

  // `like` gives shape and layout. Sums of statistics are whole on every rank: each rank updates the running ones.
  enum class Of { Gradient, Statistic };
  Tensor add_register(Of kind, const Gradient& gradient, Tensor like, const std::string& name) {
    const Shape whole = shared_.shape_of(like);
    const bool is_slice = kind == Of::Gradient && shared_.has(Sharding::Gradients, whole);
    Register one{{}, {}, gradient, like, whole, is_slice};
    const Shape shape = one.is_slice ? Shape{length_of(one)} : like.shape();
    const auto make = [&](const std::string& of) {
      return graph_.variable(of, DType::F32, shape, Init::zeros(), VariableRole::Gradient);
    };
    one.newest = make(name + "/sum");
    for (size_t level = 0; level < levels_; ++level)
      one.levels.push_back(make(fmt::format("{}/sum{}", name, level + 1)));
    registers_.push_back(one);
    return one.newest;
  }

  // To be called after all registers were added.
  void add_buffer() {
    if (shared_.buffer && shared_.buffer->turn.is_set()) {
      buffer_ = shared_.buffer->turn;
      return;
    }
    int64_t largest = 1;
    for (const Register& one : registers_) {
      const int64_t elements = element_count(one.whole).fixed();
      largest = std::max(largest, one.is_slice ? kernels::slices_buffer(length_of(one), shared_.ranks)
                                               : std::min(elements, kernels::kMostReceived));
    }
    buffer_ = graph_.variable("received", DType::F32, {largest}, Init::zeros(), VariableRole::Gradient);
  }

  void add_sums() {
    std::vector<NodeId>& nodes = result.add.nodes;
    if (!exchanges_each_shard()) {
      for (const Register& one : registers_) nodes.push_back(ops::add_gradient(one.newest, one.added, one.like));
      return;
    }
    // In the order in which the backward pass computes them: a gradient that is sent late is held until then.
    std::vector<const Register*> order;
    for (const Register& one : registers_) order.push_back(&one);
    std::ranges::stable_sort(order, {}, [](const Register* one) { return one->added.value.id(); });
    for (const Register* one : order)
      if (one->is_slice) {
        const Tensor dense = densify(one->added, one->whole);
        nodes.push_back(ops::add_to_slices(one->newest, buffer_, dense, shared_.ranks));
      } else {
        nodes.push_back(ops::add_gradient(one->newest, one->added, one->like));
        nodes.push_back(ops::sum_ranks(one->newest, buffer_));
      }
  }

  void add_merges() {
    for (size_t t = 0; t < levels_; ++t)
      for (const Register& one : registers_) {
        std::vector<NodeId>& nodes = result.merges[t].nodes;
        add_carry(one, t, nodes);
        nodes.push_back(ops::assign(one.levels[t], one.newest));
        nodes.push_back(ops::clear(one.newest));
      }
  }

  // In reverse, so that gradients which the backward pass computes first are exchanged first: registers were added in
  // the order of weights.
  void add_exchange() {
    std::vector<NodeId>& nodes = result.apply.nodes;
    nodes.push_back(ops::sum_ranks(samples_, buffer_));
    for (const Register& one : std::views::reverse(registers_)) {
      add_carry(one, levels_, nodes);
      if (!exchanges_each_shard()) nodes.push_back(ops::sum_ranks(one.newest, buffer_));
    }
  }

  // Gathers the weights of which each rank has updated its slice.
  void add_gathers(std::span<const Tensor> weights, std::span<const Gradient> sums) {
    for (size_t i = weights.size(); i-- > 0;)
      if (sums[i].is_set() && shared_.find(weights[i]) == nullptr && shared_.has(Sharding::State, weights[i].shape()))
        result.apply.nodes.push_back(ops::gather_ranks(weights[i], buffer_, shared_.ranks));
  }

  // The whole sum, gathered where each rank has a slice of it.
  Gradient whole(const Gradient& sum, Tensor weight) const {
    const Shape shape = shared_.shape_of(weight);
    if (!sum.is_set() || !shared_.has(Sharding::Gradients, shape)) return sum;
    return {ops::gather_slices(sum.value, buffer_, shared_.ranks, shape), {}};
  }

  std::vector<Gradient> whole(std::span<const Gradient> sums, std::span<const Tensor> weights) const {
    std::vector<Gradient> all;
    for (size_t i = 0; i < sums.size(); ++i) all.push_back(whole(sums[i], weights[i]));
    return all;
  }

  void add_clears() {
    for (const Register& one : registers_) result.apply.nodes.push_back(ops::clear(one.newest));
    result.apply.nodes.push_back(ops::clear(samples_));
  }

  Tensor samples() const { return samples_; }

  ShardedUpdates result;

 private:
  static void add_carry(const Register& one, size_t levels, std::vector<NodeId>& nodes) {
    for (size_t level = 0; level < levels; ++level) nodes.push_back(ops::add_into(one.newest, one.levels[level]));
  }
  bool exchanges_each_shard() const { return shared_.ranks > 1 && shared_.sharding >= Sharding::Gradients; }
  int64_t length_of(const Register& one) const {
    return kernels::slice_length(element_count(one.whole).fixed(), shared_.ranks);
  }

  Graph& graph_;
  const size_t levels_;
  const SharedTensors shared_;
  Tensor samples_, buffer_;
  std::vector<Register> registers_;
};

// The values of a batch that move running statistics: inputs of the update that are no variables.
struct Statistics {
  NodeId node;
  std::vector<ValueId> inputs;
  std::vector<Tensor> sums;  // by input; unset for the running ones
};

Statistics add_statistics_sums(Graph& graph, Builder& builder, NodeId id) {
  graph::Body& body = graph.body();
  const std::span<const ValueId> inputs = body.inputs(body.node(id));
  Statistics found{id, {inputs.begin(), inputs.end()}, {}};
  Tensor running;
  for (const ValueId input : found.inputs) {
    Tensor sum;
    if (body.value(input).kind == graph::ValueKind::Variable)
      running = Tensor(graph, input);
    else
      sum = builder.add_register(Builder::Of::Statistic, {Tensor(graph, input), {}}, running,
                                 fmt::format("{}/batch{}", running.name(), found.sums.size()));
    found.sums.push_back(sum);
  }
  return found;
}

// Repeats the layer's update with the means over all samples of the batch.
NodeId add_statistics_update(Graph& graph, const Statistics& of, Tensor samples) {
  graph::Body& body = graph.body();
  std::vector<ValueId> inputs = of.inputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (of.sums[i].is_set()) inputs[i] = div(of.sums[i], samples).id();
  const graph::Node node = body.node(of.node);
  return body.add_node(*node.op, inputs, body.attrs(node), {});
}

// The gradient of a shared weight is the sum over the values that the passes of the step gathered from its slices.
std::vector<Gradient> gradients_of_shared(Tensor loss, std::span<const Tensor> weights, Tensor seed,
                                          const SharedTensors& shared) {
  std::vector<Tensor> read;
  for (const Tensor& weight : weights) {
    const SharedWeight* const found = shared.find(weight);
    if (found == nullptr)
      read.push_back(weight);
    else
      read.insert(read.end(), found->gathered.begin(), found->gathered.end());
  }
  const std::vector<Gradient> all = training_gradients(loss, read, seed);
  std::vector<Gradient> gradients;
  size_t next = 0;
  for (const Tensor& weight : weights) {
    const SharedWeight* const found = shared.find(weight);
    Gradient sum;
    for (size_t i = found != nullptr ? found->gathered.size() : 1; i-- > 0;) {
      const Gradient& one = all[next + i];
      if (!one.is_set()) continue;
      if (sum.is_set())
        sum = {add(densify(sum, found->whole), densify(one, found->whole)), {}};
      else
        sum = one;
    }
    next += found != nullptr ? found->gathered.size() : 1;
    gradients.push_back(sum);
  }
  return gradients;
}

}  // namespace

int trailing_ones(int64_t shard) { return std::countr_one(static_cast<uint64_t>(shard)); }

ShardedUpdates update_in_shards(Tensor loss, const Optimiser& optimiser, int levels, std::span<const Tensor> only,
                                const SharedTensors& shared) {
  check(optimiser);
  expect_shareable(optimiser, shared);
  Graph& graph = loss.graph();
  const std::vector<Tensor> weights = trained_weights(graph, only);
  const LossScale scale = make_loss_scale(graph, optimiser);
  const std::vector<Gradient> gradients = gradients_of_shared(loss, weights, scale.scale, shared);
  const std::vector<NodeId> layer_statistics = find_statistics(graph.body(), gradients);

  const Scope scope(graph, "optimiser");
  Builder builder(graph, levels, shared);
  Updates& apply = builder.result.apply;
  apply = make_settings(graph, optimiser);
  apply.loss_scale = scale.scale;
  builder.result.add = apply;
  builder.result.add.nodes.push_back(ops::count_samples(builder.samples()));
  std::vector<Gradient> sums(weights.size());
  for (size_t i = 0; i < weights.size(); ++i)
    if (gradients[i].is_set())
      sums[i].value =
          builder.add_register(Builder::Of::Gradient, gradients[i], weights[i], std::string(weights[i].name()));
  std::vector<Statistics> statistics;
  for (const NodeId id : layer_statistics) statistics.push_back(add_statistics_sums(graph, builder, id));
  builder.add_buffer();
  builder.add_sums();
  builder.add_merges();
  builder.add_exchange();

  SharedUpdates by{shared, {}, [&](size_t i) { return builder.whole(sums[i], weights[i]); }};
  const Tensor is_finite = scale.is_set() ? are_finite(builder.whole(sums, weights)) : Tensor();
  Tensor factor = div(graph.scalar(1), builder.samples());
  if (scale.is_set()) factor = div(factor, scale.scale);
  {
    const Guard guard(graph, is_finite);
    for (const Statistics& one : statistics)
      apply.nodes.push_back(add_statistics_update(graph, one, builder.samples()));
    add_weight_updates(optimiser, sums, weights, factor, apply, by);
  }
  builder.add_gathers(weights, sums);
  builder.result.shared = std::move(by.variables);
  if (shared.weights)
    for (const SharedWeight& weight : shared.weights->all)
      builder.result.shared.push_back({weight.slice, weight.whole});
  if (scale.is_set())
    apply.nodes.push_back(
        ops::adjust_loss_scale(scale.scale, scale.finite_steps, is_finite, optimiser.scale_growth_steps));
  builder.add_clears();
  return std::move(builder.result);
}

}  // namespace plimsoll::autodiff
