#include "shrink/merge.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "model/rewrite.h"
#include "session/weights_writer.h"
#include "shrink/adapter_file.h"

namespace plimsoll::shrink {
namespace {

using session::PutBytes;
using session::StoredTensor;

void copy_bytes(const session::WeightsReader& from, const StoredTensor& tensor, const PutBytes& put) {
  std::array<std::byte, 64 * KiB> piece;
  for (Bytes at = 0; at < tensor.bytes; at += std::ssize(piece)) {
    const Bytes bytes = std::min<Bytes>(std::ssize(piece), tensor.bytes - at);
    from.read(tensor.offset + at, piece.data(), bytes);
    put({piece.data(), static_cast<size_t>(bytes)});
  }
}

// The model's variables in the file; what else it has, such as the optimiser's state, is left out.
std::vector<StoredTensor> list_stored(const ModelSpec& model, const session::WeightsReader& file,
                                      const std::string& path) {
  const auto traced = model::trace(model, model::Passes::Inference);
  const graph::Body& body = traced.inference.graph->body();
  std::vector<StoredTensor> found(body.variables().size());
  file.for_each([&](const StoredTensor& tensor) {
    if (!body.has_value(tensor.name)) return;
    const graph::Value& value = body.value(body.find(tensor.name));
    if (value.kind == graph::ValueKind::Variable) found[static_cast<size_t>(value.extra)] = tensor;
  });
  for (size_t i = 0; i < found.size(); ++i)
    if (found[i].name.empty())
      throw Error(
          fmt::format("'{}' has no tensor '{}': it belongs to another model", path, body.variables()[i].stored->name),
          ErrorKind::BadData);
  return found;
}

// Rows of a weight [inputs, outputs], each plus what the adapter adds to it.
class RowMerger {
 public:
  RowMerger(const AdapterReader& reader, const StoredAdapter& adapter, const WeightProduct& product, double scale)
      : product_(product), scale_(scale) {
    reader.read_a(adapter, a_);
    reader.read_b(adapter, product.outputs, b_);
    rank_ = static_cast<int64_t>(b_.size()) / product.outputs;
    row_.resize(static_cast<size_t>(product.outputs));
  }

  void run(const session::WeightsReader& from, const StoredTensor& tensor, const PutBytes& put) {
    const Bytes row_bytes = product_.outputs * static_cast<Bytes>(sizeof(float));
    for (int64_t i = 0; i < product_.inputs; ++i) {
      from.read(tensor.offset + i * row_bytes, row_.data(), row_bytes);
      for (int64_t j = 0; j < product_.outputs; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < rank_; ++k)
          sum += static_cast<double>(a_[static_cast<size_t>(k * product_.inputs + i)]) *
                 static_cast<double>(b_[static_cast<size_t>(j * rank_ + k)]);
        float& weight = row_[static_cast<size_t>(j)];
        weight = static_cast<float>(static_cast<double>(weight) + scale_ * sum);
      }
      put(std::as_bytes(std::span(row_)));
    }
  }

 private:
  const WeightProduct& product_;
  const double scale_;
  int64_t rank_ = 0;
  std::vector<float> a_, b_, row_;  // [rank, inputs], [outputs, rank]
};

}  // namespace

MergedWeights merge_weights(const ModelSpec& model, const std::string& base, const std::string& folder,
                            const std::string& output) {
  const std::vector<WeightProduct> products = list_products(model);
  const AdaptOptions options = read_adapter(folder);
  const AdapterReader reader(folder, products, options.rank);
  const session::WeightsReader file(base);
  MergedWeights done;
  const auto product_of = [&](const StoredTensor& tensor) {
    return std::find_if(products.begin(), products.end(), [&](const auto& p) { return p.weight == tensor.name; });
  };
  file.for_each([&](const StoredTensor& tensor) {
    const auto product = product_of(tensor);
    if (product == products.end()) return;
    if (tensor.dtype != DType::F32 || !(tensor.dims == Dims{product->inputs, product->outputs}))
      throw Error(fmt::format("'{}': tensor '{}' is {}{} but the model has f32[{},{}]", base, tensor.name,
                              name_of(tensor.dtype), to_string(tensor.dims), product->inputs, product->outputs),
                  ErrorKind::BadData);
  });
  const std::vector<StoredTensor> tensors = list_stored(model, file, base);
  const auto write = [&](const StoredTensor& tensor, const PutBytes& put) {
    const StoredTensor& stored = *std::ranges::find(tensors, tensor.name, &StoredTensor::name);
    ++done.tensors;
    const auto product = product_of(stored);
    const StoredAdapter* adapter = product == products.end() ? nullptr : reader.find(*product);
    if (adapter == nullptr) return copy_bytes(file, stored, put);
    ++done.merged;
    RowMerger(reader, *adapter, *product, options.alpha / static_cast<double>(options.rank)).run(file, stored, put);
  };
  session::write_weights_file(output, session::list_of(tensors), write, {.steps = file.steps()});
  return done;
}

}  // namespace plimsoll::shrink
