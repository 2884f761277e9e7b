#include "ops/claims.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "base/random.h"
#include "kernels/elementwise.h"

namespace plimsoll::testing {

using namespace kernels;

namespace {

ConcreteType concrete(const Graph& graph, ValueId value, int64_t batch) {
  const TensorType& type = graph.body().value(value).type;
  return {type.dtype, at_batch(type.shape, batch), {}, false};
}

bool is_updated(const graph::Node& node, size_t input) { return (node.op->traits.updates >> input & 1) != 0; }

// The element of an operand that broadcasting puts at element `at` of a result.
int64_t broadcast_source(const Dims& result, const Dims& operand, int64_t at) {
  int64_t source = 0, stride = 1;
  for (int i = result.rank() - 1; i >= 0; --i) {
    const int64_t place = at % result[i];
    at /= result[i];
    const int k = i - (result.rank() - operand.rank());
    if (k < 0) continue;
    source += (operand[k] == 1 ? 0 : place) * stride;
    stride *= operand[k];
  }
  return source;
}

// Another value of the same type; finite, and neither far away nor out of a small range of whole numbers.
void change_element(Contents& contents, DType dtype, int64_t at) {
  std::byte* const place = contents.data() + at * size_of(dtype);
  if (dtype == DType::F32) {
    float number = 0;
    std::memcpy(&number, place, sizeof number);
    number = number * 0.75F + 0.125F;
    std::memcpy(place, &number, sizeof number);
  } else if (is_float(dtype)) {
    float number = 0;
    load_of(dtype)(place, &number, 1);
    number = number * 0.75F + 0.125F;
    store_of(dtype)(&number, place, 1);
  } else {
    *place ^= std::byte{1};
  }
}

// By result: its number of bytes for an element, and its dimensions.
struct Result {
  Dims dims;
  Bytes element_bytes;
};
std::vector<Result> results_of(const Graph& graph, const graph::Node& node, int64_t batch) {
  std::vector<Result> results;
  const auto add = [&](ValueId value) {
    const ConcreteType type = concrete(graph, value, batch);
    results.push_back({type.dims, size_of(type.dtype)});
  };
  for (int i = 0; i < node.outputs; ++i) add(node.first_output + i);
  for (size_t i = 0; i < static_cast<size_t>(node.inputs); ++i)
    if (is_updated(node, i)) add(graph.body().inputs(node)[i]);
  return results;
}

}  // namespace

std::vector<Contents> run_part(const Graph& graph, const graph::Node& node, const std::vector<Contents>& inputs,
                               int64_t batch, int64_t first, int64_t count, const StepState& base,
                               const std::vector<Contents>* add_into) {
  const std::span<const ValueId> values = graph.body().inputs(node);
  std::vector<ConcreteType> in_types, out_types;
  for (const ValueId input : values) in_types.push_back(concrete(graph, input, count));
  for (int i = 0; i < node.outputs; ++i) out_types.push_back(concrete(graph, node.first_output + i, count));
  const Facts facts{graph.body().attrs(node), in_types, out_types, count, batch, add_into != nullptr};
  const Prepared prepared = node.op->prepare(facts);

  std::vector<Evaluated> in, out;
  std::vector<const void*> in_pointers;
  std::vector<void*> out_pointers;
  const auto load = [&](const ConcreteType& type, const Contents& contents, const Layout& layout) {
    auto buffer = std::make_shared<GuardedBuffer>(type.bytes());
    buffer->assign(contents);
    return in_layout({type, buffer}, layout);
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    in.push_back(load(in_types[i], slice_batch(inputs[i], graph.body().value(values[i]).type, batch, first, count),
                      prepared.in.empty() ? Layout() : prepared.in[i]));
    in_pointers.push_back(in.back().buffer->data());
  }
  for (size_t i = 0; i < out_types.size(); ++i) {
    const Layout layout = prepared.out.empty() ? Layout() : prepared.out[i];
    const TensorType& type = graph.body().value(node.first_output + static_cast<int>(i)).type;
    if (add_into != nullptr && !element_count(type.shape).is_batch()) {
      out.push_back(load(out_types[i], (*add_into)[i], layout));
    } else {
      out_types[i].layout = layout;
      out.push_back({out_types[i], std::make_shared<GuardedBuffer>(out_types[i].bytes())});
    }
    out_pointers.push_back(out.back().buffer->data());
  }
  GuardedBuffer workspace(prepared.workspace_bytes);
  StepState state = base;
  state.first_sample = first;
  prepared.kernel->run({in_pointers.data(), out_pointers.data(), workspace.data(), &state});
  std::vector<Contents> result;
  for (const Evaluated& value : out) result.push_back(in_layout(value, {}).buffer->copy());
  for (size_t i = 0; i < in.size(); ++i)
    if (is_updated(node, i)) result.push_back(in_layout(in[i], {}).buffer->copy());
  return result;
}

std::string why_not_elementwise(const Graph& graph, const graph::Node& node, const std::vector<Contents>& inputs,
                                int64_t batch, const StepState& base) {
  constexpr int kChanges = 5;
  const std::vector<Result> results = results_of(graph, node, batch);
  const std::vector<Contents> before = run_part(graph, node, inputs, batch, 0, batch, base);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ConcreteType type = concrete(graph, graph.body().inputs(node)[i], batch);
    for (int change = 0; change < kChanges && type.count() > 0; ++change) {
      const auto at =
          static_cast<int64_t>(mix_bits(i, static_cast<uint64_t>(change)) % static_cast<uint64_t>(type.count()));
      std::vector<Contents> changed = inputs;
      change_element(changed[i], type.dtype, at);
      const std::vector<Contents> after = run_part(graph, node, changed, batch, 0, batch, base);
      for (size_t r = 0; r < results.size(); ++r) {
        const auto [dims, bytes] = results[r];
        for (int64_t e = 0; e < element_count(dims); ++e) {
          if (broadcast_source(dims, type.dims, e) == at) continue;
          if (std::memcmp(before[r].data() + e * bytes, after[r].data() + e * bytes, static_cast<size_t>(bytes)) != 0)
            return fmt::format("element {} of result {} depends on element {} of input {}", e, r, at, i);
        }
      }
    }
  }
  return "";
}

BatchRule batch_rule_of(const Graph& graph, const graph::Node& node) {
  if (node.op->batch_rule == nullptr) return node.op->traits.batch;
  std::vector<TensorType> types;
  for (const ValueId input : graph.body().inputs(node)) types.push_back(graph.body().value(input).type);
  return node.op->batch_rule(graph.body().attrs(node), types);
}

std::string why_not_view(const Graph& graph, const graph::Node& node, const std::vector<Contents>& inputs,
                         int64_t batch, const StepState& base) {
  const TensorType& from = graph.body().value(graph.body().inputs(node)[0]).type;
  const TensorType& to = graph.body().value(node.first_output).type;
  const Contents& input = inputs[0];
  if (node.outputs != 1) return fmt::format("it has {} outputs", node.outputs);
  for (const int64_t size : {int64_t{1}, batch, batch + 3}) {
    const Bytes in = element_count(at_batch(from.shape, size)) * size_of(from.dtype);
    const Bytes out = element_count(at_batch(to.shape, size)) * size_of(to.dtype);
    if (in != out) return fmt::format("its output has {} bytes but its input {} at batch {}", out, in, size);
  }
  // The same bytes may be cut into samples on both sides.
  const bool mixes = batch_rule_of(graph, node) == BatchRule::Mixes;
  for (int64_t sample = 0; sample < batch && !mixes; ++sample)
    if (slice_batch(input, from, batch, sample, 1) != slice_batch(input, to, batch, sample, 1))
      return fmt::format("sample {} of its output is not sample {} of its input", sample, sample);
  if (node.op->prepare != nullptr && run_part(graph, node, inputs, batch, 0, batch, base)[0] != input)
    return "its kernel gives other bytes";
  return "";
}

std::string why_not_passing(const Graph& graph, const graph::Node& node, const std::vector<Contents>& inputs,
                            int64_t batch, const StepState& base) {
  const auto passes = node.op->fusion.passes(graph.body().attrs(node));
  if (!passes || inputs.size() != 2) return "it does not say what passes of its two inputs";
  const DType dtype = graph.body().value(node.first_output).type.dtype;
  const std::vector<float> dy = to_floats(inputs[0], dtype), y = to_floats(inputs[1], dtype);
  const std::vector<float> out = to_floats(run_part(graph, node, inputs, batch, 0, batch, base)[0], dtype);
  for (size_t i = 0; i < out.size(); ++i) {
    const bool inside = y[i] > passes->low && y[i] < passes->high;
    if (out[i] != (inside ? dy[i] : 0)) return fmt::format("at y = {} it makes {} of {}", y[i], out[i], dy[i]);
  }
  return "";
}

std::string why_not_sum(const Graph& graph, const graph::Node& node, const std::vector<Contents>& inputs, int64_t batch,
                        const StepState& base) {
  const std::span<const ValueId> values = graph.body().inputs(node);
  if (values.size() != 2) return "it has not two inputs";
  const ConcreteType type = concrete(graph, node.first_output, batch);
  std::vector<std::vector<float>> in;
  for (size_t i = 0; i < 2; ++i) in.push_back(to_floats(inputs[i], graph.body().value(values[i]).type.dtype));
  const std::vector<float> out = to_floats(run_part(graph, node, inputs, batch, 0, batch, base)[0], type.dtype);
  for (int64_t e = 0; e < type.count(); ++e) {
    const auto term = [&](size_t i) {
      return in[i][static_cast<size_t>(broadcast_source(type.dims, concrete(graph, values[i], batch).dims, e))];
    };
    const float sum = term(0) + term(1);
    if (std::abs(out[static_cast<size_t>(e)] - sum) > 1e-2F * std::abs(sum) + 1e-6F)
      return fmt::format("element {} is {} but its inputs are {} and {}", e, out[static_cast<size_t>(e)], term(0),
                         term(1));
  }
  return "";
}

}  // namespace plimsoll::testing
