#include "shrink/merge.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include <plimsoll/error.h>
#include "shrink/adapter_file.h"

namespace plimsoll::shrink {
namespace {

using weights::PutBytes;
using weights::StoredTensor;

// What a folder of adapters adds to the weights of a model.
struct Adapters {
  std::vector<WeightProduct> products;
  AdaptOptions options;
  AdapterReader reader;

  Adapters(const ModelSpec& model, const std::string& folder)
      : products(list_products(model)), options(read_adapter(folder)), reader(folder, products, options.rank) {}

  // Null: none for that weight.
  const WeightProduct* find(const std::string& weight) const {
    const auto product = std::ranges::find(products, weight, &WeightProduct::weight);
    return product == products.end() || reader.find(*product) == nullptr ? nullptr : &*product;
  }
};

// The rows of a weight [inputs, outputs], each plus what the adapter adds to it.
class RowMerger {
 public:
  RowMerger(const Adapters& adapters, const WeightProduct& product)
      : inputs_(product.inputs),
        outputs_(product.outputs),
        rank_(adapters.options.rank),
        scale_(adapters.options.alpha / static_cast<double>(rank_)),
        row_(static_cast<size_t>(outputs_)) {
    const StoredAdapter& adapter = *adapters.reader.find(product);
    adapters.reader.read_a(adapter, a_);
    adapters.reader.read_b(adapter, outputs_, b_);
  }

  // The next bytes of the weight, in pieces of any length.
  void take(std::span<const std::byte> bytes, const PutBytes& put) {
    const auto row_bytes = static_cast<size_t>(outputs_) * sizeof(float);
    while (!bytes.empty()) {
      const size_t count = std::min(bytes.size(), row_bytes - filled_);
      std::memcpy(reinterpret_cast<std::byte*>(row_.data()) + filled_, bytes.data(), count);
      bytes = bytes.subspan(count);
      filled_ += count;
      if (filled_ < row_bytes) return;
      if (next_ < inputs_) add_to_row();
      put(std::as_bytes(std::span(row_)));
      ++next_;
      filled_ = 0;
    }
  }

 private:
  void add_to_row() {
    for (int64_t j = 0; j < outputs_; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < rank_; ++k)
        sum += static_cast<double>(a_[static_cast<size_t>(k * inputs_ + next_)]) *
               static_cast<double>(b_[static_cast<size_t>(j * rank_ + k)]);
      float& weight = row_[static_cast<size_t>(j)];
      weight = static_cast<float>(static_cast<double>(weight) + scale_ * sum);
    }
  }

  const int64_t inputs_, outputs_, rank_;
  const double scale_;
  std::vector<float> a_, b_;  // [rank, inputs], [outputs, rank]
  std::vector<float> row_;
  size_t filled_ = 0;
  int64_t next_ = 0;
};

}  // namespace

store::WeightsSource merged_weights(const ModelSpec& model, store::WeightsSource base, const std::string& folder) {
  const auto adapters = std::make_shared<const Adapters>(model, folder);
  store::WeightsSource merged = base;
  merged.write = [adapters, write = std::move(base.write)](const StoredTensor& tensor, const PutBytes& put) {
    const WeightProduct* product = adapters->find(tensor.name);
    if (product == nullptr) return write(tensor, put);
    if (tensor.dtype != DType::F32 || !(tensor.dims == Dims{product->inputs, product->outputs}))
      throw Error(
          fmt::format("tensor '{}' is {}{}, which no adapter can be added to: it must be f32[{},{}]", tensor.name,
                      name_of(tensor.dtype), to_string(tensor.dims), product->inputs, product->outputs),
          ErrorKind::BadData);
    RowMerger merger(*adapters, *product);
    write(tensor, [&](std::span<const std::byte> bytes) { merger.take(bytes, put); });
  };
  return merged;
}

MergeFacts merge_facts(const ModelSpec& model, const std::string& folder) {
  const Adapters adapters(model, folder);
  const int64_t rank = adapters.options.rank;
  MergeFacts facts;
  for (const WeightProduct& product : adapters.products) {
    if (adapters.find(product.weight) == nullptr) continue;
    ++facts.weights;
    const int64_t numbers = rank * (product.inputs + product.outputs) + product.outputs;
    facts.bytes = std::max(facts.bytes, numbers * Bytes{sizeof(float)});
  }
  return facts;
}

}  // namespace plimsoll::shrink
