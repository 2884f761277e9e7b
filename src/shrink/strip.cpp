#include "shrink/strip.h"

#include <limits>
#include <map>
#include <memory>
#include <unordered_map>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "graph/body.h"
#include "ops/ops.h"
#include "shrink/sparse_weights.h"

namespace plimsoll::shrink {
namespace {

using weights::PutBytes;
using weights::StoredTensor;

constexpr const char *kMask = "/mask", *kValues = "/values", *kStarts = "/starts";

// A weight that will be stored as its parts.
struct Chosen {
  StoredTensor dense;
  kernels::SparseOrder order;
  int64_t values = 0;
  bool is_multiplied = true;  // only products read it, so it need not be expanded
};
using ChosenWeights = std::map<std::string, Chosen>;  // by the name in the file

Shape shape_of(const Dims& dims) {
  Shape shape;
  for (const int64_t size : dims) shape.push_back(size);
  return shape;
}

bool is_weight(const StoredTensor& tensor) { return tensor.dtype == DType::F32 && tensor.dims.rank() >= 2; }

// Whether that input of the node is the right side of a product, which kernels can read as mask and values.
bool is_product(const graph::Body& graph, const graph::Node& node, size_t input) {
  const graph::Attrs& attrs = graph.attrs(node);
  return node.op->name == "matmul" && input == 1 && attrs.i("transpose_a") == 0 && attrs.i("transpose_b") == 0 &&
         graph.value(graph.inputs(node)[0]).type.shape.rank() == 2 &&
         graph.value(graph.inputs(node)[1]).type.shape.rank() == 2;
}

void find_other_readers(const model::TracedPass& pass, ChosenWeights& chosen) {
  const graph::Body& graph = pass.graph->body();
  for (const graph::Node& node : graph.nodes())
    for (size_t i = 0; i < graph.inputs(node).size(); ++i) {
      const graph::Value& value = graph.value(graph.inputs(node)[i]);
      if (value.kind != graph::ValueKind::Variable || is_product(graph, node, i)) continue;
      const auto at = chosen.find(std::string(graph.name(value)));
      if (at != chosen.end()) at->second.is_multiplied = false;
    }
}

// Weights that are smaller as mask and values. Throws when there is none, with the largest share of zeros found.
ChosenWeights choose(const store::StoredModel& stored, const weights::WeightsReader& reader) {
  ChosenWeights chosen;
  double most_zeros = 0;
  reader.for_each([&](const StoredTensor& tensor) {
    if (!is_weight(tensor)) return;
    const SparseWeights weights(reader, tensor);
    const int64_t values = weights.count_values(), elements = element_count(tensor.dims);
    most_zeros =
        std::max(most_zeros, 1 - static_cast<double>(values) / static_cast<double>(std::max<int64_t>(1, elements)));
    if (weights.order().bytes(values) < tensor.bytes && values <= std::numeric_limits<int32_t>::max())
      chosen.emplace(tensor.name, Chosen{tensor, weights.order(), values});
  });
  if (chosen.empty())
    throw Error(fmt::format("'{}' has nothing to strip: at most {:.2g} % of a weight is zero, and a mask takes 3.1 %; "
                            "prune the model first",
                            stored.path, 100 * most_zeros),
                ErrorKind::Usage);
  find_other_readers(stored.traced->inference, chosen);
  if (stored.traced->objective) find_other_readers(*stored.traced->objective, chosen);
  return chosen;
}

// The variables that stand for a weight, made once in a graph.
struct SparseParts {
  Tensor mask, values, starts;

  SparseParts(Graph& graph, const std::string& name, const Chosen& weight) {
    const auto find_or_make = [&](const char* part, DType dtype, int64_t count) {
      const std::string full = graph.store()->full_name(name + part);
      if (graph.has_value(full)) return graph.find(full);
      return graph.variable(name + part, dtype, {count}, Init::zeros(), VariableRole::Weight);
    };
    mask = find_or_make(kMask, DType::U8, weight.order.mask_bytes());
    values = find_or_make(kValues, DType::F32, weight.values);
    starts = find_or_make(kStarts, DType::I32, weight.order.starts());
  }
};

model::Rewrite make_rewrite(const std::shared_ptr<const ChosenWeights>& chosen) {
  model::Rewrite rewrite;
  rewrite.variable = [chosen](const model::ReplayedVariable& variable) -> std::optional<Tensor> {
    const auto at = chosen->find(variable.stored.name);
    if (at == chosen->end()) return std::nullopt;
    if (at->second.is_multiplied) return Tensor();
    const SparseParts parts(variable.graph, variable.name, at->second);
    return ops::sparse_expand(parts.values, parts.mask, parts.starts, shape_of(at->second.dense.dims),
                              variable.name + "/expand");
  };
  rewrite.node = [chosen](model::ReplayedNode& node) -> std::optional<std::vector<Tensor>> {
    const graph::Body& traced = node.pass.graph->body();
    if (node.inputs.size() < 2 || !is_product(traced, node.node(), 1)) return std::nullopt;
    const graph::Value& kernel = node.traced_input(1);
    if (kernel.kind != graph::ValueKind::Variable) return std::nullopt;
    const auto at = chosen->find(std::string(traced.name(kernel)));
    if (at == chosen->end()) return std::nullopt;
    const SparseParts parts(node.graph, node.input_name(1), at->second);
    const Tensor bias = node.inputs.size() == 3 ? node.inputs[2] : Tensor();
    return std::vector{ops::sparse_matmul(node.inputs[0], parts.values, parts.mask, parts.starts, bias,
                                          at->second.order.columns, node.name)};
  };
  return rewrite;
}

// Writes the parts of the chosen weights, and copies the others.
class StrippedSource {
 public:
  StrippedSource(const weights::WeightsReader& reader, std::shared_ptr<const ChosenWeights> chosen)
      : reader_(reader), chosen_(std::move(chosen)) {
    reader.for_each([&](const StoredTensor& tensor) { places_.emplace(tensor.name, tensor.offset); });
  }

  void write(const StoredTensor& tensor, const PutBytes& put) const {
    for (const char* part : {kMask, kValues, kStarts}) {
      if (!tensor.name.ends_with(part)) continue;
      const auto at = chosen_->find(tensor.name.substr(0, tensor.name.size() - std::string_view(part).size()));
      if (at == chosen_->end()) continue;
      const SparseWeights weights(reader_, at->second.dense);
      return part == kMask     ? weights.write_mask(put)
             : part == kValues ? weights.write_values(put)
                               : weights.write_starts(put);
    }
    std::vector<std::byte> piece(static_cast<size_t>(SparseWeights::kPieceBytes));
    const Bytes offset = places_.at(tensor.name);
    for (Bytes at = 0; at < tensor.bytes; at += SparseWeights::kPieceBytes) {
      const Bytes bytes = std::min(SparseWeights::kPieceBytes, tensor.bytes - at);
      reader_.read(offset + at, piece.data(), bytes);
      put(std::span(piece).first(static_cast<size_t>(bytes)));
    }
  }

 private:
  const weights::WeightsReader& reader_;
  const std::shared_ptr<const ChosenWeights> chosen_;
  std::unordered_map<std::string, Bytes> places_;
};

StripReport describe(const ChosenWeights& chosen, const model::TracedModel& before, const model::TracedModel& after) {
  StripReport report{.before = bytes_of(before), .after = bytes_of(after)};
  for (const auto& [name, weight] : chosen) {
    const int64_t elements = element_count(weight.dense.dims);
    report.weights.push_back(
        {name, elements, elements - weight.values, weight.dense.bytes, weight.order.bytes(weight.values)});
  }
  return report;
}

}  // namespace

bool is_stripped(const model::TracedModel& traced) {
  for (const graph::Node& node : traced.inference.graph->body().nodes())
    if (node.op->name == "sparse_matmul" || node.op->name == "sparse_expand") return true;
  return false;
}

bool is_quantised(const model::TracedModel& traced) {
  const auto& nodes = traced.inference.graph->body().nodes();
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const graph::Node& node) { return node.op->name.starts_with("int8_"); });
}

ModelBytes bytes_of(const model::TracedModel& traced) {
  const std::vector<StoredTensor> tensors = store::list_weights(traced);
  ModelBytes bytes{.file = weights::weights_file_bytes(weights::list_of(tensors))};
  for (const StoredTensor& tensor : tensors) bytes.memory += round_up(tensor.bytes, kAlignment);
  return bytes;
}

StripReport strip_model(const std::string& from, const std::string& to) {
  const store::StoredModel stored = store::read_model(from);
  if (is_stripped(*stored.traced)) throw Error(fmt::format("'{}' is stripped already", from), ErrorKind::Usage);
  if (is_quantised(*stored.traced))
    throw Error(fmt::format("'{}' is quantised: its weights are bytes, and f32 alone is stripped; strip the model that "
                            "it was made of",
                            from),
                ErrorKind::Usage);
  store::expect_whole_weights(stored);
  const weights::WeightsReader reader(stored.weights_path());
  const auto chosen = std::make_shared<const ChosenWeights>(choose(stored, reader));
  const model::TracedModel stripped = model::rewrite(stored.spec, make_rewrite(chosen), model::Passes::Inference);
  const std::vector<StoredTensor> tensors = store::list_weights(stripped);
  const StrippedSource source(reader, chosen);
  store::ModelNotes notes = stored.notes;
  notes.emplace_back("stripped", fmt::format("{} weights", chosen->size()));
  store::save_model(to, stored.spec, stripped,
                    {weights::list_of(tensors),
                     [&](const StoredTensor& tensor, const PutBytes& put) { source.write(tensor, put); }, stored.steps},
                    notes);
  return describe(*chosen, *stored.traced, stripped);
}

}  // namespace plimsoll::shrink

namespace plimsoll {

std::string to_string(const StripReport& report) {
  std::string text = fmt::format("{:<32} {:>12} {:>8} {:>12} {:>12} {:>8}\n", "weight", "elements", "zeros", "before",
                                 "after", "smaller");
  const auto times = [](Bytes before, Bytes after) {
    return fmt::format("{:.2f} x", static_cast<double>(before) / static_cast<double>(std::max<Bytes>(1, after)));
  };
  StrippedWeight all{.name = "all of these"};
  const auto add = [&](const StrippedWeight& weight) {
    text += fmt::format("{:<32} {:>12} {:>6.1f} % {:>12} {:>12} {:>8}\n", weight.name, weight.elements,
                        100.0 * static_cast<double>(weight.zeros) / static_cast<double>(weight.elements),
                        format_bytes(weight.bytes_before), format_bytes(weight.bytes_after),
                        times(weight.bytes_before, weight.bytes_after));
  };
  for (const StrippedWeight& weight : report.weights) {
    add(weight);
    all.elements += weight.elements;
    all.zeros += weight.zeros;
    all.bytes_before += weight.bytes_before;
    all.bytes_after += weight.bytes_after;
  }
  if (all.elements > 0) add(all);
  const auto whole = [&](const char* name, Bytes before, Bytes after) {
    text += fmt::format("{:<32} {:>12} {:>8} {:>12} {:>12} {:>8}\n", name, "", "", format_bytes(before),
                        format_bytes(after), times(before, after));
  };
  whole("the model in memory", report.before.memory, report.after.memory);
  whole("the model as a weights file", report.before.file, report.after.file);
  return text;
}

}  // namespace plimsoll
