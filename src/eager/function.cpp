#include <plimsoll/eager.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "eager/engine.h"
#include "graph/caller.h"
#include "graph/draws.h"

namespace plimsoll::eager {
namespace {

constexpr int64_t kManyInARow = 5;

// The signature of a call: types of tensors, numbers by value.
struct Signature {
  std::vector<TensorType> types;
  std::vector<uint64_t> numbers;
  bool operator==(const Signature&) const = default;
};

std::string describe_change(const Signature& before, const Signature& now) {
  for (size_t i = 0; i < std::min(before.types.size(), now.types.size()); ++i)
    if (!(before.types[i] == now.types[i]))
      return fmt::format("tensor {} is {} and was {}", i, to_string(now.types[i]), to_string(before.types[i]));
  return before.numbers == now.numbers ? "it takes another number of tensors"
                                       : "a number has another value; give it as a tensor, scalar(number)";
}

// While it lives, tensors of random numbers are made in the graph that is traced.
class Tracing {
 public:
  Tracing(graph::Recorder& recorder, Graph& graph) : recorder_(recorder), outer_(recorder.set_traced(&graph)) {}
  ~Tracing() { recorder_.set_traced(outer_); }
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

 private:
  graph::Recorder& recorder_;
  Graph* const outer_;
};

// One trace: a graph that shares the variables of the Eager.
class Trace : public graph::Capturer {
 public:
  Trace(EagerEngine& engine, Signature signature) : signature_(std::move(signature)), graph_(engine.graph().store()) {
    graph_.body().capture_with(this);
  }

  const Signature& signature() const { return signature_; }

  void make(EagerEngine& engine, const TracedCode::Body& body) {
    const Tracing tracing(engine, graph_);
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < signature_.types.size(); ++i) {
      tensors.push_back(
          graph_.placeholder(fmt::format("argument{}", i), signature_.types[i].dtype, signature_.types[i].shape));
      parameters_.push_back(tensors.back().id());
    }
    for (const Tensor& result : body(tensors)) {
      if (!result.is_set()) throw Error("function: a result is unset");
      results_.push_back(result.is_eager() ? capture(*result.held()).id() : result.id());
      if (!result.is_eager() && result.owner() != &graph_.body())
        throw Error("function: a result belongs to another graph");
    }
    graph_.finalize();
  }

  std::vector<Tensor> call(EagerEngine& engine, std::span<const Tensor> arguments, int64_t batch) const {
    std::vector<Tensor> all(arguments.begin(), arguments.end());
    all.insert(all.end(), captured_.begin(), captured_.end());
    return engine.call(graph_.body(), parameters_, all, results_, batch);
  }

  // A variable is the same in the trace; another value becomes one more parameter.
  Tensor capture(graph::Held& held) override {
    const auto& value = static_cast<const EagerValue&>(held);
    if (value.stored != nullptr) return {graph_, graph_.body().enter_variable(*value.stored)};
    for (size_t i = 0; i < captured_.size(); ++i)
      if (captured_[i].held() == &held) return {graph_, parameters_[signature_.types.size() + i]};
    graph::keep(&held);
    captured_.emplace_back(&held);
    Tensor parameter =
        graph_.placeholder(fmt::format("captured{}", captured_.size()), held.type.dtype, held.type.shape);
    parameters_.push_back(parameter.id());
    return parameter;
  }

  Bytes bytes() const { return graph_.size_bytes() + static_cast<Bytes>(sizeof *this); }
  int64_t last_used = 0;

 private:
  Signature signature_;
  Graph graph_;
  std::vector<ValueId> parameters_, results_;
  std::vector<Tensor> captured_;
};

}  // namespace

class Traces {
 public:
  explicit Traces(FunctionOptions options) : options_(std::move(options)) {
    if (options_.cache < 1) throw Error("function: the cache needs room for at least one trace");
  }

  std::vector<Tensor> call(std::span<const Tensor> tensors, std::span<const uint64_t> numbers,
                           const TracedCode::Body& body, const std::source_location& where) {
    for (const Tensor& tensor : tensors)
      if (!tensor.is_set()) throw Error("function: an argument is unset");
    // Within another trace, or in a graph, the function is called directly.
    if (!tensors.empty() && !tensors[0].is_eager()) return body(tensors);
    auto& engine = static_cast<EagerEngine&>(graph::require_recorder("a call of a function"));
    engine.expect_thread();
    const graph::Caller caller(where);
    if (&engine != engine_ || !graph::is_alive(engine_)) traces_.clear();  // those of an Eager that has ended
    engine_ = &engine;
    ++facts_.calls;
    int64_t batch = 1;
    Trace& trace = find(engine, signature_of(tensors, numbers, batch), body);
    trace.last_used = facts_.calls;
    return trace.call(engine, tensors, batch);
  }

  FunctionFacts facts() const {
    FunctionFacts now = facts_;
    now.kept = std::ssize(traces_);
    return now;
  }

 private:
  Signature signature_of(std::span<const Tensor> tensors, std::span<const uint64_t> numbers, int64_t& batch) const {
    Signature signature{{}, {numbers.begin(), numbers.end()}};
    bool has_batch = false;
    for (const Tensor& tensor : tensors) {
      signature.types.push_back(tensor.type());
      Shape& shape = signature.types.back().shape;
      if (!options_.open_batch || shape.rank() == 0) continue;
      const int64_t samples = shape[0].fixed();
      if (has_batch && samples != batch)
        throw Error(
            fmt::format("function: the batch is open, so all tensors must begin with the same size, not {} and {}",
                        batch, samples));
      batch = samples;
      has_batch = true;
      shape[0] = Dim::batch();
    }
    return signature;
  }

  Trace& find(EagerEngine& engine, Signature signature, const TracedCode::Body& body) {
    for (const auto& trace : traces_)
      if (trace->signature() == signature) {
        new_in_a_row_ = 0;
        return *trace;
      }
    auto trace = std::make_unique<Trace>(engine, signature);
    trace->make(engine, body);
    ++facts_.traces;
    if (++new_in_a_row_ >= kManyInARow && last_) {
      facts_.warning = fmt::format("a function was traced anew in {} calls in a row: {}", new_in_a_row_,
                                   describe_change(*last_, signature));
      if (options_.warn) options_.warn(facts_.warning);
    }
    last_ = std::move(signature);
    traces_.push_back(std::move(trace));
    Trace& made = *traces_.back();
    keep_bound();
    return made;
  }

  // The newest, which is the last, stays.
  void keep_bound() {
    const auto bytes = [&] {
      Bytes sum = 0;
      for (const auto& trace : traces_) sum += trace->bytes();
      return sum;
    };
    while (traces_.size() > 1 && (std::ssize(traces_) > options_.cache || bytes() > options_.cache_bytes))
      traces_.erase(std::min_element(traces_.begin(), traces_.end() - 1,
                                     [](const auto& a, const auto& b) { return a->last_used < b->last_used; }));
  }

  const FunctionOptions options_;
  EagerEngine* engine_ = nullptr;  // whose variables the traces use
  std::vector<std::unique_ptr<Trace>> traces_;
  std::optional<Signature> last_;
  FunctionFacts facts_;
  int64_t new_in_a_row_ = 0;
};

TracedCode::TracedCode(FunctionOptions options) : traces_(std::make_shared<Traces>(std::move(options))) {}

std::vector<Tensor> TracedCode::call(std::span<const Tensor> tensors, std::span<const uint64_t> numbers,
                                     const Body& body, const std::source_location& where) {
  return traces_->call(tensors, numbers, body, where);
}

FunctionFacts TracedCode::facts() const { return traces_->facts(); }

namespace {

graph::Attrs at_batch_size(const graph::Attrs& attrs, int64_t batch) {
  graph::Attrs sized;
  for (const auto& [name, attr] : attrs.items()) {
    if (const auto* shape = std::get_if<Shape>(&attr)) {
      Shape numbers;
      for (const Dim dim : *shape) numbers.push_back(dim.at(batch));
      sized.set(name, numbers);
    } else {
      sized.set(name, attr);
    }
  }
  return sized;
}

}  // namespace

std::vector<Tensor> EagerEngine::call(const graph::Body& traced, std::span<const ValueId> parameters,
                                      std::span<const Tensor> arguments, std::span<const ValueId> results,
                                      int64_t batch) {
  const graph::Composing composing(recording_);
  graph::Body& body = recording_.body();
  std::vector<ValueId> ids(traced.values().size(), -1);
  for (size_t i = 0; i < parameters.size(); ++i) ids[static_cast<size_t>(parameters[i])] = arguments[i].id();
  for (const graph::Variable& variable : traced.variables()) {
    ids[static_cast<size_t>(variable.value)] = body.enter_variable(*variable.stored);
    graph::let_go(hold(ids[static_cast<size_t>(variable.value)]));  // known to the recording from now on
  }
  for (const graph::Constant& constant : traced.constants())
    ids[static_cast<size_t>(constant.value)] = body.add_constant(traced.value(constant.value).type, constant.bytes, "");
  std::vector<ValueId> in;
  std::unordered_map<int64_t, int64_t> draws;  // by key in the trace
  for (const graph::Node& node : traced.nodes()) {
    in.clear();
    for (const ValueId input : traced.inputs(node)) in.push_back(ids[static_cast<size_t>(input)]);
    graph::Attrs attrs = at_batch_size(traced.attrs(node), batch);
    // Each call of a function that draws at random draws other numbers; nodes that share a draw still do.
    if (attrs.has("key")) attrs.set("key", draws.try_emplace(attrs.i("key"), graph::kNextDraw).first->second);
    const bool before = body.set_backward(node.is_backward);
    const NodeId id = body.add_node(*node.op, in, attrs, "");
    if (attrs.has("key")) draws[traced.attrs(node).i("key")] = body.attrs(body.node(id)).i("key");
    body.set_backward(before);
    after_apply(id, std::source_location());
    for (int i = 0; i < node.outputs; ++i)
      ids[static_cast<size_t>(node.first_output + i)] = body.node(id).first_output + i;
  }
  std::vector<Tensor> made;
  for (const ValueId result : results) made.emplace_back(recording_, ids[static_cast<size_t>(result)]);
  return made;
}

}  // namespace plimsoll::eager
