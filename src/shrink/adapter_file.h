// Adapters on disk as PEFT has them: adapter_model.safetensors and adapter_config.json in a folder.
//
//   base_model.model.<module>.lora_A.weight   [rank, inputs], the transpose of lora_A here
//   base_model.model.<module>.lora_B.weight   [outputs, rank]; layers that a module joins lie below each other
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <plimsoll/shrink.h>
#include "session/engine.h"
#include "shrink/layer_paths.h"
#include "weights/weights_reader.h"

namespace plimsoll::shrink {

constexpr const char* kAdapterWeights = "adapter_model.safetensors";
constexpr const char* kAdapterConfig = "adapter_config.json";

// Options of the adapters in a folder: rank, alpha and dropout of its config; targets are the modules of its weights.
// Throws Error(BadData) for files that are damaged or of another kind of adapter.
AdaptOptions read_adapter(const std::string& folder);

// The tensors of a folder that belong to one product.
struct StoredAdapter {
  weights::StoredTensor a, b;
  int64_t first_row = 0;  // of b: those before belong to other layers of the module
};

// The adapters of a folder, by product of the model. Throws Error(BadData) for a tensor that belongs to none of them or
// has other sizes.
class AdapterReader {
 public:
  AdapterReader(const std::string& folder, const std::vector<WeightProduct>& products, int64_t rank);

  // Null: the product has none.
  const StoredAdapter* find(const WeightProduct& product) const;
  // Row-major as the file has it, in f32.
  void read_a(const StoredAdapter& adapter, std::vector<float>& numbers) const;                   // [rank, inputs]
  void read_b(const StoredAdapter& adapter, int64_t outputs, std::vector<float>& numbers) const;  // [outputs, rank]

 private:
  void read(const weights::StoredTensor& tensor, int64_t first_row, int64_t rows, std::vector<float>& numbers) const;

  const weights::WeightsReader file_;
  const int64_t rank_;
  std::vector<std::pair<std::string, StoredAdapter>> adapters_;  // by weight
};

// Sets the adapters of an open session whose graph has that adapted model.
void load_adapter(session::Engine& session, Graph& graph, const ModelSpec& model, const std::string& folder);

// Writes the adapters of an open session into a folder, which is made if it is missing.
void save_adapter(session::Engine& session, Graph& graph, const ModelSpec& model, const AdaptOptions& options,
                  const std::string& folder);
// Throws Error(Usage) when the folder could not be written as things are; called before training.
void expect_room_for_adapter(const std::string& folder);

}  // namespace plimsoll::shrink
