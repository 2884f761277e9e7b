#include <fmt/format.h>

#include <plimsoll/error.h>
#include <plimsoll/layers.h>
#include <plimsoll/ops.h>
#include <plimsoll/random.h>
#include "graph/caller.h"

namespace plimsoll::layers {
namespace {

// One direction of one layer.
struct OneWay {
  Tensor sequence;
  std::vector<Tensor> state;  // the last
};

struct CellKind {
  const char* name;
  int64_t gates;
  size_t states;
};
constexpr CellKind kSimpleRnn{"simple_rnn", 1, 1}, kLstm{"lstm", 4, 2}, kGru{"gru", 3, 1};

class RecurrentLayer {
 public:
  RecurrentLayer(const CellKind& kind, Tensor x, int64_t units, const Recurrent& options, std::string name)
      : kind_(kind), units_(units), options_(options), name_(std::move(name)), mask_(options.mask) {
    if (x.rank() != 3 || x.dim(1).is_batch() || x.dim(2).is_batch())
      fail(fmt::format("input must be [batch, positions, width] but is {}", to_string(x.type())));
    if (units < 1) fail(fmt::format("the number of units must be positive but is {}", units));
    if (options.layers < 1) fail(fmt::format("{} layers can't be stacked", options.layers));
    if (options.bidirectional && options.reverse) fail("goes both ways, so that it can't be reversed");
    const size_t states = static_cast<size_t>(options.layers) * (options.bidirectional ? 2 : 1) * kind.states;
    if (!options.state.empty() && options.state.size() != states)
      fail(fmt::format("{} first states are given, but it has {}", options.state.size(), states));
    if (mask_.is_set() && options.lengths.is_set()) fail("has a mask and lengths; give one of both");
    if (!options.lengths.is_set()) return;
    if (options.lengths.rank() != 1)
      fail(fmt::format("lengths are {} but must be [batch]", to_string(options.lengths.type())));
    mask_ = less(arange(x.graph(), x.dim(1).fixed(), 0, 1, DType::I32),
                 reshape(cast(options.lengths, DType::I32), {options.lengths.dim(0), 1}));
  }

  RecurrentOutput build(Tensor x) {
    Graph& graph = x.graph();
    const Scope scope(graph, name_);
    RecurrentOutput result;
    for (int64_t i = 0; i < options_.layers; ++i) {
      std::optional<Scope> own;
      if (options_.layers > 1) own.emplace(graph, fmt::format("layer_{}", i));
      const bool is_last = i + 1 == options_.layers;
      x = layer(x, is_last && !options_.return_sequences, result.state);
    }
    result.output = x;
    if (mask_.is_set() && options_.zero_masked && options_.return_sequences)
      result.output = mul(x, expand_dims(cast(mask_, DType::F32), 2));
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(fmt::format("{} '{}': {}", kind_.name, name_, why));
  }

  Tensor layer(Tensor x, bool gives_last, std::vector<Tensor>& states) {
    const auto output = [&](const OneWay& way) { return gives_last ? way.state[0] : way.sequence; };
    if (!options_.bidirectional) {
      const OneWay way = one_way(x, options_.reverse, states.size());
      states.insert(states.end(), way.state.begin(), way.state.end());
      return output(way);
    }
    Tensor both[2];
    for (const bool backward : {false, true}) {
      const Scope scope(x.graph(), backward ? "backward" : "forward");
      const OneWay way = one_way(x, backward, states.size());
      states.insert(states.end(), way.state.begin(), way.state.end());
      both[backward ? 1 : 0] = output(way);
    }
    if (options_.merge == "concat") return concat({both[0], both[1]}, both[0].rank() - 1);
    if (options_.merge == "sum") return both[0] + both[1];
    if (options_.merge == "mul") return both[0] * both[1];
    if (options_.merge == "ave") return (both[0] + both[1]) * 0.5;
    fail(fmt::format("merge '{}' is unknown; known are concat, sum, mul and ave", options_.merge));
  }

  // `states`: how many states come before.
  OneWay one_way(Tensor x, bool reverse, size_t states) const {
    Graph& graph = x.graph();
    const int64_t width = x.dim(2).fixed(), columns = kind_.gates * units_;
    const auto weight = [&](const char* name, const Shape& shape, const Init& init) {
      return graph.variable(name, DType::F32, shape, init);
    };
    const Tensor kernel =
        weight("kernel", {width, columns}, options_.kernel.value_or(Init::glorot_uniform(width, columns)));
    const Tensor recurrent = weight("recurrent_kernel", {units_, columns},
                                    options_.recurrent_kernel.value_or(Init::glorot_uniform(units_, columns)));
    const Tensor bias = options_.use_bias ? weight("bias", {columns}, options_.bias) : Tensor();
    const auto first = [&](size_t i) { return options_.state.empty() ? Tensor() : options_.state[states + i]; };
    std::vector<Tensor> out;
    if (kind_.gates == kLstm.gates) {
      out = plimsoll::lstm(x, kernel, recurrent, bias, first(0), first(1), mask_, reverse, order("ifgo"));
    } else if (kind_.gates == kGru.gates) {
      const Tensor more = options_.use_bias ? weight("recurrent_bias", {columns}, options_.bias) : Tensor();
      out = plimsoll::gru(x, kernel, recurrent, bias, more, first(0), mask_, reverse, order("zrn"));
    } else {
      out = plimsoll::simple_rnn(x, kernel, recurrent, bias, first(0), mask_, reverse, options_.activation);
    }
    return {out[0], {out.begin() + 1, out.end()}};
  }

  std::string order(const char* otherwise) const { return options_.order.empty() ? otherwise : options_.order; }

  const CellKind& kind_;
  int64_t units_;
  const Recurrent& options_;
  std::string name_;
  Tensor mask_;
};

RecurrentOutput build(const CellKind& kind, Tensor x, int64_t units, const Recurrent& options, const Name& name) {
  const graph::Caller caller(name.where());
  const std::string full = name.empty() ? x.graph().layer_name(kind.name) : std::string(name);
  return RecurrentLayer(kind, x, units, options, full).build(x);
}

}  // namespace

RecurrentOutput simple_rnn(Tensor x, int64_t units, const Recurrent& options, Name name) {
  return build(kSimpleRnn, x, units, options, name);
}
RecurrentOutput lstm(Tensor x, int64_t units, const Recurrent& options, Name name) {
  return build(kLstm, x, units, options, name);
}
RecurrentOutput gru(Tensor x, int64_t units, const Recurrent& options, Name name) {
  return build(kGru, x, units, options, name);
}

Layer simple_rnn(int64_t units, const Recurrent& options, Name name) {
  return [=, label = std::string(name)](Tensor x, bool) { return Tensor(simple_rnn(x, units, options, label)); };
}
Layer lstm(int64_t units, const Recurrent& options, Name name) {
  return [=, label = std::string(name)](Tensor x, bool) { return Tensor(lstm(x, units, options, label)); };
}
Layer gru(int64_t units, const Recurrent& options, Name name) {
  return [=, label = std::string(name)](Tensor x, bool) { return Tensor(gru(x, units, options, label)); };
}

}  // namespace plimsoll::layers
