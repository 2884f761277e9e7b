#include "model/rewrite.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/ops.h>
#include "graph/apply.h"
#include "graph/draws.h"
#include "graph/recorder.h"

namespace plimsoll::model {
namespace {

std::string without_scope(std::string_view name, std::string_view scope) {
  if (name.starts_with(scope)) name.remove_prefix(scope.size());
  return std::string(name);
}

// Restores the names of nodes as they were asked for, before numbers made them unique: a pass that is replayed beside
// another then gets the same numbers as if it had been built there.
class AskedNames {
 public:
  std::string of_next(std::string_view full) {
    seen_.insert(full);
    const size_t end = full.find_last_not_of("0123456789");
    if (end == std::string_view::npos || end + 1 == full.size() || full[end] != '_') return std::string(full);
    const std::string_view base = full.substr(0, end);
    return std::string(seen_.contains(base) ? base : full);
  }
  void add(std::string_view full) { seen_.insert(full); }

 private:
  std::unordered_set<std::string_view> seen_;
};

// What the batch of the traced graph is in the graph that is built: the batch, a multiple of it, or a number.
Dim batch_in(const TracedPass& pass, const NamedTensors& inputs) {
  std::optional<Dim> batch;
  for (const auto& [name, id] : pass.inputs) {
    const TensorType& traced = pass.graph->body().value(id).type;
    const TensorType given = inputs[name].type();
    bool fits = traced.dtype == given.dtype && traced.shape.rank() == given.shape.rank();
    for (int i = 0; fits && i < traced.shape.rank(); ++i) {
      const Dim was = traced.shape[i], is = given.shape[i];
      if (!was.is_batch()) {
        fits = was == is;
        continue;
      }
      fits = is.count() % was.count() == 0 && (!batch || *batch * was.count() == is);
      if (fits) batch = is / was.count();
    }
    if (!fits)
      throw Error(fmt::format("'{}' is {} but the model takes {}, as it was traced", name, to_string(given),
                              to_string(traced)));
  }
  return batch.value_or(Dim::batch());
}

graph::Attrs at_batch_of(const graph::Attrs& attrs, Dim batch) {
  graph::Attrs sized = attrs;
  for (const auto& [key, attr] : attrs.items()) {
    const auto* shape = std::get_if<Shape>(&attr);
    if (shape == nullptr) continue;
    Shape here;
    for (const Dim dim : *shape) here.push_back(dim.is_batch() ? batch * dim.count() : dim);
    sized.set(key, here);
  }
  return sized;
}

class Replay {
 public:
  Replay(const TracedPass& pass, const NamedTensors& inputs, const Rewrite& rewrite)
      : pass_(pass),
        from_(pass.graph->body()),
        graph_(inputs.begin()->second.graph()),
        rewrite_(rewrite),
        batch_(batch_in(pass, inputs)),
        is_eager_(graph_.body().recorder() != nullptr),
        tensors_(from_.values().size()),
        is_known_(from_.values().size(), false),
        last_uses_(from_.values().size(), -1) {
    for (const auto& [name, id] : pass.inputs) know(id, inputs[name]);
    if (!is_eager_) {
      for (NodeId id = 0; id < pass.begin.nodes; ++id) names_.add(from_.name(from_.node(id)));
      for (ValueId id = 0; id < pass.begin.values; ++id) names_.add(from_.name(from_.value(id)));
    }
    for (NodeId id = pass.begin.nodes; id < pass.end.nodes; ++id)
      for (const ValueId input : from_.inputs(from_.node(id))) last_uses_[static_cast<size_t>(input)] = id;
    for (const auto& [name, id] : pass.outputs) last_uses_[static_cast<size_t>(id)] = pass.end.nodes;
  }

  NamedTensors run() {
    next_leaf_ = pass_.begin.values;
    for (NodeId id = pass_.begin.nodes; id < pass_.end.nodes; ++id) {
      make_leaves_before(from_.node(id).first_output);
      make(id);
      release(id);
    }
    make_leaves_before(pass_.end.values);
    NamedTensors outputs;
    for (const auto& [name, id] : pass_.outputs) outputs.add(name, tensor_of(id));
    return outputs;
  }

 private:
  void know(ValueId id, Tensor tensor) {
    tensors_[static_cast<size_t>(id)] = std::move(tensor);
    is_known_[static_cast<size_t>(id)] = true;
  }

  // Variables and constants are made where they were made in the traced graph, so that their order is the same.
  void make_leaves_before(ValueId end) {
    for (; next_leaf_ < end; ++next_leaf_) {
      const graph::ValueKind kind = from_.value(next_leaf_).kind;
      if (kind == graph::ValueKind::Variable || kind == graph::ValueKind::Constant) tensor_of(next_leaf_);
    }
  }

  Tensor tensor_of(ValueId id) {
    if (is_known_[static_cast<size_t>(id)]) return tensors_[static_cast<size_t>(id)];
    const graph::Value& value = from_.value(id);
    names_.add(from_.name(value));
    if (value.kind == graph::ValueKind::Variable) {
      know(id, declare(*from_.variable_of(id).stored));
    } else if (value.kind == graph::ValueKind::Constant) {
      const std::string name = without_scope(names_.of_next(from_.name(value)), pass_.scope);
      know(id, graph_.constant(value.type.dtype, value.type.shape, from_.constant_of(id).bytes, name));
    } else {
      throw Error(
          fmt::format("'{}' is read but is neither made in this pass nor one of its inputs", from_.name(value)));
    }
    return tensors_[static_cast<size_t>(id)];
  }

  Tensor declare(const StoredVariable& stored) {
    const std::string name = without_scope(stored.name, pass_.scope);
    if (rewrite_.variable)
      if (const auto other = rewrite_.variable({graph_, name, stored})) return *other;
    return graph_.variable(name, stored.type.dtype, stored.type.shape, stored.init, stored.role);
  }

  void make(NodeId id) {
    const graph::Node& node = from_.node(id);
    ReplayedNode replayed{pass_, id, graph_, {}, {}, {}};
    if (!is_eager_) replayed.name = without_scope(names_.of_next(from_.name(node)), pass_.scope);
    replayed.attrs = batch_ == Dim::batch() ? from_.attrs(node) : at_batch_of(from_.attrs(node), batch_);
    for (const ValueId input : from_.inputs(node)) replayed.inputs.push_back(tensor_of(input));
    std::optional<std::vector<Tensor>> outputs;
    if (rewrite_.node) outputs = rewrite_.node(replayed);
    if (!outputs) outputs = replayed.replay();
    if (outputs->size() != static_cast<size_t>(node.outputs))
      throw Error(fmt::format("{} '{}' has {} outputs but {} were put in their place", node.op->name, from_.name(node),
                              node.outputs, outputs->size()));
    for (int i = 0; i < node.outputs; ++i) know(node.first_output + i, (*outputs)[static_cast<size_t>(i)]);
  }

  // Drops handles after their last use: eager code then frees the memory.
  void release(NodeId id) {
    const graph::Node& node = from_.node(id);
    for (const ValueId input : from_.inputs(node))
      if (last_uses_[static_cast<size_t>(input)] == id) tensors_[static_cast<size_t>(input)] = Tensor();
    for (int i = 0; i < node.outputs; ++i)
      if (const auto value = static_cast<size_t>(node.first_output + i); last_uses_[value] < 0)
        tensors_[value] = Tensor();
  }

  const TracedPass& pass_;
  const graph::Body& from_;
  Graph& graph_;
  const Rewrite& rewrite_;
  const Dim batch_;
  const bool is_eager_;
  std::vector<Tensor> tensors_;  // by their traced values
  std::vector<bool> is_known_;
  std::vector<NodeId> last_uses_;  // -1: no node of this pass
  ValueId next_leaf_ = 0;
  AskedNames names_;
};

NamedTensors placeholders_of(Graph& graph, const std::vector<NamedType>& types) {
  NamedTensors tensors;
  for (const auto& [name, type] : types) tensors.add(name, graph.placeholder(name, type.dtype, type.shape));
  return tensors;
}

NamedValues ids_of(const NamedTensors& tensors) {
  NamedValues ids;
  for (const auto& [name, tensor] : tensors) ids.emplace_back(name, tensor.id());
  return ids;
}

// The types that the model takes, where `prepare` makes others of what is fed.
std::vector<NamedType> taken_types(const ModelSpec& spec) {
  if (!spec.prepare) return spec.inputs;
  Graph graph;
  std::vector<NamedType> types;
  for (const auto& [name, tensor] : spec.prepare(placeholders_of(graph, spec.inputs)))
    types.push_back({name, tensor.type()});
  return types;
}

struct BothPasses {
  TracedPass forward;
  std::optional<TracedPass> objective;
};

BothPasses trace_pass(const ModelSpec& spec, const std::vector<NamedType>& types, bool training) {
  const auto graph = std::make_shared<Graph>();
  const NamedTensors inputs = placeholders_of(*graph, types), targets = placeholders_of(*graph, spec.targets);
  const std::string scope = spec.name() + "/";
  const GraphPlace begin = end_of(graph->body());
  const NamedTensors outputs = spec.model(inputs, training);
  const GraphPlace middle = end_of(graph->body());
  BothPasses passes{{graph, scope, ids_of(inputs), ids_of(outputs), begin, middle}, std::nullopt};
  const auto& objective = training && spec.training_objective ? spec.training_objective : spec.objective;
  if (objective) {
    Objective made;
    {
      const Scope reused(*graph, spec.name(), Scope::Mode::Reuse);
      made = objective(outputs, targets);
    }
    NamedValues given = ids_of(outputs), results{{kLossName, made.loss.id()}};
    for (const auto& [name, id] : ids_of(targets)) given.emplace_back(kTargetPrefix + name, id);
    for (size_t i = 0; i < made.sums.size(); ++i) results.emplace_back(sum_name(i), made.sums[i].id());
    passes.objective = {graph, scope, std::move(given), std::move(results), middle, end_of(graph->body())};
  }
  graph->finalize();
  return passes;
}

ModelSpec::MakeObjective replay_objective(std::shared_ptr<const TracedModel> traced, bool training,
                                          const Rewrite& rewrite) {
  return [traced = std::move(traced), training, rewrite](const NamedTensors& outputs, const NamedTensors& targets) {
    const TracedPass& pass = *(training ? traced->training_objective : traced->objective);
    NamedTensors given = outputs;
    for (const auto& [name, tensor] : targets) given.add(kTargetPrefix + name, tensor);
    const NamedTensors made = replay(pass, given, rewrite);
    Objective objective{made[kLossName]};
    for (size_t i = 0; i + 1 < made.size(); ++i) objective.sums.push_back(made[sum_name(i)]);
    return objective;
  };
}

}  // namespace

GraphPlace end_of(const graph::Body& graph) {
  return {static_cast<NodeId>(graph.nodes().size()), static_cast<ValueId>(graph.values().size())};
}

std::string sum_name(size_t number) { return fmt::format("sum_{}", number); }

NamedValues TracedModel::targets() const {
  NamedValues targets;
  if (objective)
    for (const auto& [full, id] : objective->inputs)
      if (full.starts_with(kTargetPrefix)) targets.emplace_back(without_scope(full, kTargetPrefix), id);
  return targets;
}

const graph::Value& ReplayedNode::traced_input(size_t number) const {
  const graph::Body& body = pass.graph->body();
  return body.value(body.inputs(node())[number]);
}

std::string ReplayedNode::input_name(size_t number) const {
  return without_scope(pass.graph->body().name(traced_input(number)), pass.scope);
}

std::vector<Tensor> ReplayedNode::replay() const {
  const graph::Body& into = graph.body();
  graph::Attrs settings = attrs;
  if (settings.has("key")) settings.set("key", graph::free_key(into, op(), static_cast<uint64_t>(settings.i("key"))));
  // A split batch_norm gives one row of statistics for each micro-batch: their mean is taken, as ops::batch_norm does.
  const bool splits = into.may_split(op().name) && !settings.has("split");
  if (splits) settings.set("split", int64_t{1});
  const graph::Outputs made =
      inputs.empty() ? graph::apply_in(graph, op(), settings, name) : graph::apply(op(), inputs, settings, name);
  std::vector<Tensor> outputs;
  const std::string mean_name = name.substr(0, name.find_last_of('/') + 1) + "reduce_mean";
  for (int i = 0; i < made.size(); ++i)
    outputs.push_back(splits && i > 0 ? reduce_mean(made[i], {0}, false, mean_name) : made[i]);
  return outputs;
}

NamedTensors replay(const TracedPass& pass, const NamedTensors& inputs, const Rewrite& rewrite) {
  return Replay(pass, inputs, rewrite).run();
}

TracedModel trace(const ModelSpec& spec, Passes passes) {
  const std::vector<NamedType> types = taken_types(spec);
  BothPasses inference = trace_pass(spec, types, false);
  TracedModel traced{
      .name = spec.name(), .inference = std::move(inference.forward), .objective = std::move(inference.objective)};
  if (passes == Passes::Inference) return traced;
  BothPasses training = trace_pass(spec, types, true);
  traced.training = std::move(training.forward);
  traced.training_objective = std::move(training.objective);
  return traced;
}

Model replay_model(std::shared_ptr<const TracedModel> traced, Rewrite rewrite) {
  std::vector<std::string> inputs, outputs;
  for (const auto& [name, id] : traced->inference.inputs) inputs.push_back(name);
  for (const auto& [name, id] : traced->inference.outputs) outputs.push_back(name);
  std::string name = traced->name;
  return {std::move(name), std::move(inputs), std::move(outputs),
          [traced = std::move(traced), rewrite = std::move(rewrite)](const NamedTensors& given, bool training) {
            if (training && !traced->training)
              throw Error(fmt::format("model '{}' was made for inference and can't be trained; train the model that it "
                                      "was made of",
                                      traced->name),
                          ErrorKind::Usage);
            return replay(training ? *traced->training : traced->inference, given, rewrite);
          }};
}

ModelSpec replay_spec(const ModelSpec& spec, const std::shared_ptr<const TracedModel>& traced, const Rewrite& rewrite) {
  ModelSpec result = spec;
  result.model = replay_model(traced, rewrite);
  const auto types_of = [&](const NamedValues& values, const TracedPass& pass) {
    std::vector<NamedType> types;
    for (const auto& [name, id] : values) types.push_back({name, pass.graph->body().value(id).type});
    return types;
  };
  result.inputs = types_of(traced->inference.inputs, traced->inference);
  result.prepare = {};
  result.objective = result.training_objective = {};
  if (traced->objective) {
    result.targets = types_of(traced->targets(), *traced->objective);
    result.objective = replay_objective(traced, false, rewrite);
    if (traced->training_objective) result.training_objective = replay_objective(traced, true, rewrite);
  }
  return result;
}

TracedModel rewrite(const ModelSpec& spec, const Rewrite& rewrite, Passes passes) {
  const auto traced = std::make_shared<const TracedModel>(trace(spec, passes));
  return trace(replay_spec(spec, traced, rewrite), passes);
}

}  // namespace plimsoll::model
